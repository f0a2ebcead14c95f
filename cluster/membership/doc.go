// Package membership knows which nodes of the cluster seem to be alive, by gossip
// (hashicorp/memberlist). It is a hint: it finds nodes and says who is silent, and
// decides nothing. Who leads, what is complete and where tasks run is decided by the
// metadata store and by heartbeats.
//
// A node is known by the id of its data folder ([OpenIdentity]), which also counts
// the node's starts. Gossip knows each start under a name of its own, so a node that
// was killed and comes back at another address is a member again at once, and its
// earlier start ends as failed.
//
// [Start] opens the sockets; [Membership.Join] contacts an address. Gossip joins
// once and forgets the dead, so package discovery repeats it for ever with what it
// finds and with the peers that this package remembers in the data folder
// ([Membership.Peers]):
//
//	m, err := membership.Start(config)
//	loop := discovery.NewLoop(discovery.Config{
//		Sources: []discovery.Discoverer{seeds, announcer, discovery.Remembered{Peers: m.Peers}},
//		Join:    m.Join,
//	})
//	go loop.Run(ctx)
//
// # Who may be a member
//
// [Admit] refuses, in both directions, a node of another cluster name, of another
// cluster id, or without a common version of the protocol. A node without a cluster
// id is admitted by every cluster of its name, and should take that of the first that
// it joins ([Membership.Update]). Two clusters of one name that meet
// stay apart; [Yields] says whether this one has to give way, which is done by
// leaving and starting again without a cluster id.
//
// With a cluster secret all gossip is encrypted, and who does not have it is
// refused. Without one only loopback addresses are allowed.
package membership
