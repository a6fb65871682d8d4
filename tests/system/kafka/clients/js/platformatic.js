// @platformatic/kafka as a driver; see kafkajs.js for the protocol.
"use strict"

const { load, serve, toBytes, toText } = require("./lines")

const library = load("@platformatic/kafka")

function recordOf(message) {
  return {
    partition: message.partition,
    offset: Number(message.offset),
    key: toText(message.key),
    value: toText(message.value),
    headers: [...message.headers].map(([name, value]) => [name.toString(), toText(value)]),
    timestamp_ms: Number(message.timestamp),
  }
}

async function produce({ bootstrap, topic, messages, codec, acks, idempotent }) {
  const { Producer, ProduceAcks } = await library
  const producer = new Producer({
    clientId: "platformatic",
    bootstrapBrokers: [bootstrap],
    autocreateTopics: true,
    idempotent,
  })
  try {
    await producer.send({
      acks: { all: ProduceAcks.ALL, 1: ProduceAcks.LEADER, 0: ProduceAcks.NO_RESPONSE }[acks],
      compression: codec,
      messages: messages.map((message) => ({
        topic,
        partition: 0,
        key: toBytes(message.key) ?? undefined,
        value: toBytes(message.value) ?? undefined,
        headers: new Map(message.headers.map(([name, value]) => [Buffer.from(name), toBytes(value)])),
        ...(message.timestamp_ms === null ? {} : { timestamp: BigInt(message.timestamp_ms) }),
      })),
    })
  } finally {
    await producer.close()
  }
}

async function read(bootstrap, group, counts, commit) {
  const { Consumer } = await library
  const consumer = new Consumer({
    clientId: "platformatic",
    groupId: group,
    bootstrapBrokers: [bootstrap],
    maxWaitTime: 50,
  })
  const records = Object.fromEntries(Object.keys(counts).map((topic) => [topic, []]))
  let missing = Object.values(counts).reduce((sum, count) => sum + count, 0)
  try {
    const stream = await consumer.consume({
      topics: Object.keys(counts),
      mode: commit ? "committed" : "earliest",
      fallbackMode: "earliest",
      autocommit: false,
    })
    for await (const message of stream) {
      const list = records[message.topic]
      if (list.length === counts[message.topic]) continue
      list.push(recordOf(message))
      missing -= 1
      if (missing === 0) {
        if (commit) await message.commit()
        break
      }
    }
  } finally {
    await consumer.close(true)
  }
  return records
}

async function consume({ bootstrap, counts, group }) {
  return read(bootstrap, group, counts, false)
}

async function consumeInGroup({ bootstrap, topic, group, count }) {
  return (await read(bootstrap, group, { [topic]: count }, true))[topic]
}

async function offsetAt({ bootstrap, topic, timestamp_ms }) {
  const { Consumer } = await library
  const consumer = new Consumer({
    clientId: "platformatic",
    groupId: "unused",
    bootstrapBrokers: [bootstrap],
  })
  try {
    const found = await consumer.listOffsets({
      topics: [topic],
      partitions: { [topic]: [0] },
      timestamp: BigInt(timestamp_ms),
    })
    const offset = Number(found.get(topic)[0])
    return offset < 0 ? null : offset
  } finally {
    await consumer.close(true)
  }
}

serve({ produce, consume, consumeInGroup, offsetAt })
