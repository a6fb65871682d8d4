// A member of a share group until the end of its input: tells each record as a line of offset,
// delivery count and value, and acknowledges it as its value and its delivery count say.
//
// Of ten numbers 3 and 4 are released when they come for the first time, 7 is rejected, and all
// others are accepted. It says what it has done, behind each line.

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap, group, topic := os.Args[1], os.Args[2], os.Args[3]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ShareGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ShareMaxRecords(100),
		kgo.ShareMaxRecordsStrict(),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			check(results.Error())
		}),
	)
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		// Its end is the sign to leave.
		bufio.NewReader(os.Stdin).ReadString(0)
		stop()
	}()
	out := bufio.NewWriter(os.Stdout)
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 50)
		if ctx.Err() == nil {
			check(fetches.Err())
		}
		fetches.EachRecord(func(record *kgo.Record) {
			status := outcome(record)
			record.Ack(status)
			fmt.Fprintln(out, record.Offset, record.DeliveryCount(), string(record.Value), status)
		})
		check(client.FlushAcks(context.Background()))
		check(out.Flush())
	}
	client.Close()
}

func outcome(record *kgo.Record) kgo.AckStatus {
	number, err := strconv.Atoi(string(record.Value))
	check(err)
	switch {
	case number%10 == 7:
		return kgo.AckReject
	case (number%10 == 3 || number%10 == 4) && record.DeliveryCount() == 1:
		return kgo.AckRelease
	}
	return kgo.AckAccept
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
