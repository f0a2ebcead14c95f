package barrier

import (
	"fmt"
	"math/bits"
)

// channelSet is a set of channels of a fixed maximum, one bit each.
type channelSet struct {
	words []uint64
	count int
}

func newChannelSet(channels int) channelSet {
	return channelSet{words: make([]uint64, (channels+63)/64)}
}

// has reports whether the channel is in the set.
func (s *channelSet) has(channel uint32) bool {
	return s.words[channel/64]&(1<<(channel%64)) != 0
}

// add puts the channel in; adding it again changes nothing.
func (s *channelSet) add(channel uint32) {
	if !s.has(channel) {
		s.words[channel/64] |= 1 << (channel % 64)
		s.count++
	}
}

// remove takes the channel out, if it is in.
func (s *channelSet) remove(channel uint32) {
	if s.has(channel) {
		s.words[channel/64] &^= 1 << (channel % 64)
		s.count--
	}
}

// clear empties the set.
func (s *channelSet) clear() {
	clear(s.words)
	s.count = 0
}

// appendTo appends the channels in ascending order.
func (s *channelSet) appendTo(channels []uint32) []uint32 {
	for i, word := range s.words {
		for ; word != 0; word &= word - 1 {
			channels = append(channels, uint32(i*64+bits.TrailingZeros64(word)))
		}
	}
	return channels
}

// copyFrom makes the set equal to another one of the same maximum.
func (s *channelSet) copyFrom(other *channelSet) {
	copy(s.words, other.words)
	s.count = other.count
}

// appendDifference appends the channels that are in s and not in other.
func (s *channelSet) appendDifference(channels []uint32, other *channelSet) []uint32 {
	for i, word := range s.words {
		for word &^= other.words[i]; word != 0; word &= word - 1 {
			channels = append(channels, uint32(i*64+bits.TrailingZeros64(word)))
		}
	}
	return channels
}

// String prints the channels: "[0 2 5]".
func (s *channelSet) String() string { return fmt.Sprint(s.appendTo(nil)) }
