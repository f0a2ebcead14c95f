// Package messages is everything that actors say to each other, generated from
// messages/proto, and what outlives a process: checkpoint metadata and the log of
// metadata commands.
//
// This page lists each conversation: who sends, who receives, what may be lost,
// and what then happens. Control messages carry a [Fence]: job, epoch (raised by
// each new coordinator) and attempt (raised by each deployment of the tasks). A
// receiver drops and counts what is older than what it knows.
//
// # Deployment and life
//
//	Deploy            coordinator -> task manager   resent every second until TaskStateChanged comes; repeated, it changes nothing
//	CancelTask        coordinator -> task manager -> task   resent until the task's last TaskStateChanged
//	TaskStateChanged  task -> coordinator           resent until TaskStateAck
//	TaskStateAck      coordinator -> task           lost: the change is sent again, and acknowledged again
//	EndOfDataReached  task -> coordinator           resent until EndOfDataAck
//	EndOfDataAck      coordinator -> task           as TaskStateAck
//	Heartbeat         task manager <-> coordinator  lost: counts as silence; enough silence fails the node's tasks
//	Heartbeat         task manager -> agent -> dispatcher -> coordinator   of tasks whose coordinator is silent; repeated each second
//	AdoptTasks        new coordinator -> task manager   resent twice a second until the answers come; after 3 s the tasks are not taken over
//	AdoptableTasks    task manager -> new coordinator   sent for each repetition
//	NewCoordinator    task manager -> its tasks         within one process; sent for each repetition
//	TaskAccount       task -> new coordinator           sent for each repetition
//	CancelJob         user -> coordinator           lost: the node that was asked repeats it until the job has ended
//	SuspendJob        user -> coordinator           within one process; not lost
//
// # Who coordinates a job, and where its tasks may run
//
//	StartCoordinator    dispatcher -> agent       resent until the job's record names a coordinator on that node
//	CoordinatorRefused  agent -> dispatcher       lost: the order is repeated, and refused again
//	SlotRequest         coordinator -> agent -> dispatcher   repeated every second while the job lives, and for each new offer
//	SlotOffer           dispatcher -> coordinator lost: the next request is answered again
//	SlotInquiry         dispatcher -> agents -> their coordinators   resent twice a second to whoever has not answered
//	SlotInquiryAnswer   agent -> dispatcher       sent for each repetition
//	Presence            node -> agents of all others   lost: nothing was said; it keeps connections open
//	NodeLost            agent -> coordinators and dispatcher of its node   within one process; the silence of the node says the same later
//	JobsChanged, NodesChanged, LeadershipChanged   node -> its dispatcher   within one process; not lost
//	LinkLost            agent -> task manager -> tasks of its node   within one process; a gap in the numbers says the same later
//
// # Checkpoints
//
//	TriggerCheckpoint        coordinator -> task without running predecessor   lost: the checkpoint times out
//	AcknowledgeCheckpoint    task -> coordinator   lost: the checkpoint times out
//	DeclineCheckpoint        task -> coordinator   lost: the checkpoint times out
//	NotifyCheckpointComplete coordinator -> tasks  lost: healed by the next completion, or by the latest_completed of an abort
//	NotifyCheckpointAborted  coordinator -> tasks  lost: tasks that align for it go on when the next barrier comes
//	RequestCheckpoint, CheckpointOutcome   user <-> coordinator
//
// # How a job stands
//
//	JobQuery  any node -> coordinator of the job   lost: the asker gives up after its time limit, and asks again
//	JobView   coordinator -> asker                 as above; a copy, nothing follows from it
//
// # Input splits
//
//	SplitRequest     source task -> coordinator    resent until the assignment of its number comes
//	SplitAssignment  coordinator -> source task    resent until SplitAck; held between the enumerator's snapshot and the task's
//	SplitAck         source task -> coordinator    sent for each repetition; the enumerator's snapshot waits for it
//	SourceProgress   source task -> coordinator    for people; loss is not noticed
//	StandingQuery    coordinator -> task           asks for people what a late checkpoint waits for; each second
//	Standing         task -> coordinator           its answer; that there is none says something, too
//	TaskReport       task -> coordinator           each second, for people; the next one says it again
//
// # Timers
//
//	SetTimer, CancelTimer  any actor -> the timer actor of its node   within one process; not lost
//	TimerFired             timer actor -> owner                       within one process; a stale generation is ignored
//
// # In band, on a data channel
//
// Numbered per channel and attempt when they leave the sender's queue. A gap or a
// repetition fails the attempt, and the job restarts from its last completed
// checkpoint.
//
//	RecordBatch         many records in one field; needs credit
//	Barrier             separates the records before a checkpoint from those after it
//	BarrierAnnouncement a time-outable aligned barrier is queued
//	CancelBarrier       the barrier of this checkpoint will not come
//	Watermark           event time has advanced; WatermarkIdle: the channel does not count, or counts again
//	EndOfData           no record follows, barriers may
//	EndOfPartition      nothing follows; resent until a Credit confirms it
//	ChannelRequest      sender -> receiver, as a task starts: are you there? Answered by a Credit that opens the channel; resent while a Credit is waited for, and eager where the node lacks memory
//	Credit              receiver -> sender, against the data, what was consumed in all; lost: the next one, or the answer to a ChannelRequest, makes up for it
//
// # Between nodes that look for each other
//
// Outside the actors: gossip and datagrams, from package cluster alone.
//
//	NodeMeta      each node -> all, with gossip   lost: gossip repeats it; at most 512 bytes
//	Announcement  each node -> its network        lost: the next one comes within seconds; a foreign or repeated one is counted and ignored
//
// # Between nodes that share the metadata log
//
// Outside the actors: one connection per asker, from cluster/metadata/replicated.
//
//	MetadataRequest   member -> leader   connection lost: a read is asked again, the outcome of a command is UNKNOWN; refused in another term than the asker's
//	MetadataResponse  leader -> member   as above
//
// # Between nodes that carry what actors say
//
// Below the actors: the connections of cluster/transport, one per lane and direction.
//
//	TransportHello    node that dialled -> other   lost with the connection: it dials again
//	TransportWelcome  its answer                   as above
//	TransportGoodbye  node that ends -> all        lost: the others dial, and find nobody
//	Envelope          sender -> receiver, around each message   lost: told on both ends on the data lane; healed by the conversation on the control lane
//
// # Work and its answers
//
// A machine asks its shell for input and output with the messages of work.proto;
// the answer is a WorkDone with the operation's id. [MetadataCommand] is the log
// of the metadata store, [CheckpointMetadata] the content of a `_metadata` file.
package messages
