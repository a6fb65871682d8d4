// kafkajs as a driver: calls come as lines of JSON on standard input, answers go as lines to
// standard output, bytes as base64. Its counterpart is drivers/remote.py.
"use strict"

const {
  Kafka,
  CompressionTypes,
  CompressionCodecs,
  ConfigResourceTypes,
  logLevel,
} = require("kafkajs")
const snappy = require("kafkajs-snappy")
const { ZstdCodec } = require("zstd-codec")
const { load, serve, toBytes, toText, until } = require("./lines")

CompressionCodecs[CompressionTypes.Snappy] = snappy
const wasm = load("@platformatic/wasm-utils")
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => Buffer.from((await wasm).lz4Compress(encoder.buffer)),
  decompress: async (bytes) => Buffer.from((await wasm).lz4Decompress(bytes)),
})
const zstd = new Promise((ready) => ZstdCodec.run((loaded) => ready(new loaded.Streaming())))
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async (bytes) => Buffer.from((await zstd).decompress(bytes)),
})

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

function connect(bootstrap) {
  return new Kafka({ clientId: "kafkajs", brokers: [bootstrap], logLevel: logLevel.NOTHING })
}

// Several values of one name are an array; the order of names is the order of the object.
function headersFrom(list) {
  const headers = {}
  for (const [name, value] of list) {
    const bytes = toBytes(value)
    headers[name] = name in headers ? [].concat(headers[name], bytes) : bytes
  }
  return headers
}

function headersOf(headers) {
  const list = []
  for (const [name, value] of Object.entries(headers || {})) {
    for (const one of Array.isArray(value) ? value : [value]) list.push([name, toText(one)])
  }
  return list
}

function recordOf(partition, message) {
  return {
    partition,
    offset: Number(message.offset),
    key: toText(message.key),
    value: toText(message.value),
    headers: headersOf(message.headers),
    timestamp_ms: Number(message.timestamp),
  }
}

async function produce({ bootstrap, topic, messages, codec, acks, idempotent }) {
  const producer = connect(bootstrap).producer({ idempotent })
  await producer.connect()
  try {
    await producer.send({
      topic,
      acks: acks === "all" ? -1 : Number(acks),
      compression: CODECS[codec],
      messages: messages.map((message) => ({
        partition: 0,
        key: toBytes(message.key),
        value: toBytes(message.value),
        headers: headersFrom(message.headers),
        ...(message.timestamp_ms === null ? {} : { timestamp: String(message.timestamp_ms) }),
      })),
    })
  } finally {
    await producer.disconnect()
  }
}

// It reads only as a member of a group.
async function read(bootstrap, group, counts, commit) {
  const consumer = connect(bootstrap).consumer({ groupId: group, maxWaitTimeInMs: 50 })
  const records = {}
  let missing = 0
  for (const [topic, count] of Object.entries(counts)) {
    records[topic] = []
    missing += count
  }
  await consumer.connect()
  try {
    await consumer.subscribe({ topics: Object.keys(counts), fromBeginning: true })
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error))
      consumer
        .run({
          autoCommit: false,
          eachMessage: async ({ topic, partition, message }) => {
            if (records[topic].length === counts[topic]) return
            records[topic].push(recordOf(partition, message))
            missing -= 1
            if (missing === 0) resolve()
          },
        })
        .catch(reject)
    })
    if (commit) {
      const offsets = Object.entries(records).map(([topic, list]) => ({
        topic,
        partition: 0,
        offset: String(list[list.length - 1].offset + 1),
      }))
      await consumer.commitOffsets(offsets)
    }
  } finally {
    await consumer.disconnect()
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
  const admin = connect(bootstrap).admin()
  await admin.connect()
  try {
    const ends = await admin.fetchTopicOffsets(topic)
    const [found] = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp_ms)
    // It answers the end where there is nothing so late.
    return found.offset === ends[0].high ? null : Number(found.offset)
  } finally {
    await admin.disconnect()
  }
}

// A member of a group until "close" comes: tells what it owns and what it reads.
async function member({ bootstrap, topics, group, session_timeout_ms, tell, closing }) {
  const consumer = connect(bootstrap).consumer({
    groupId: group,
    sessionTimeout: session_timeout_ms,
    rebalanceTimeout: 10000,
    heartbeatInterval: 500,
    maxWaitTimeInMs: 100,
  })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const partitions = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) =>
      numbers.map((number) => [topic, number]),
    )
    tell({ event: "assigned", partitions })
  })
  consumer.on(consumer.events.REBALANCING, () => tell({ event: "revoked_all" }))
  consumer.on(consumer.events.CRASH, () => tell({ event: "revoked_all" }))
  await consumer.connect()
  await consumer.subscribe({ topics, fromBeginning: true })
  await consumer.run({
    autoCommitInterval: 200,
    eachMessage: async ({ message }) => tell({ event: "read", value: message.value.toString() }),
  })
  await closing
  await consumer.disconnect()
}

// A round of administration; what the broker told on the way.
async function admin(request) {
  const client = connect(request.bootstrap).admin()
  await client.connect()
  try {
    return {
      ...(await administerTopic(client, request)),
      ...(await administerGroups(client, request)),
      ...(await deleteTopic(client, request)),
    }
  } finally {
    await client.disconnect()
  }
}

async function administerTopic(client, request) {
  const { topic, messages } = request
  const partitions = async () =>
    (await client.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length
  const retention = async () => {
    const asked = { type: ConfigResourceTypes.TOPIC, name: topic, configNames: ["retention.ms"] }
    const found = await client.describeConfigs({ resources: [asked], includeSynonyms: true })
    return found.resources[0].configEntries[0].configValue
  }
  const configEntries = [{ name: "retention.ms", value: "-1" }]
  await client.createTopics({
    topics: [{ topic, numPartitions: 2, replicationFactor: 1, configEntries }],
  })
  const created = { partitions: await partitions(), retention_ms: await retention() }
  await client.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
  await until(async () => (await partitions()) === 3)
  const changed = { name: "retention.ms", value: "9000000000000" }
  await client.alterConfigs({
    validateOnly: false,
    resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [changed] }],
  })
  await until(async () => (await retention()) === changed.value)
  await produce(request)
  const numberOf = (offsets) => Number(offsets.find(({ partition }) => partition === 0).offset)
  const at_time = await client.fetchTopicOffsetsByTimestamp(topic, messages[4].timestamp_ms)
  await client.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "3" }] })
  const ends = (await client.fetchTopicOffsets(topic)).find(({ partition }) => partition === 0)
  return {
    created,
    at_time: numberOf(at_time),
    earliest: Number(ends.low),
    latest: Number(ends.high),
  }
}

async function administerGroups(client, { topic, group, joined }) {
  const listed = async () => (await client.listGroups()).groups.map(({ groupId }) => groupId)
  const [described] = (await client.describeGroups([joined])).groups
  const partitions = [{ partition: 0, offset: "5" }]
  await client.setOffsets({ groupId: group, topic, partitions })
  const [committed] = await client.fetchOffsets({ groupId: group, topics: [topic] })
  const groups = await listed()
  await client.deleteGroups([group])
  const { brokers, clusterId } = await client.describeCluster()
  return {
    joined: { state: described.state, clients: described.members.map(({ clientId }) => clientId) },
    committed: Number(committed.partitions.find(({ partition }) => partition === 0).offset),
    listed: [groups.includes(joined), groups.includes(group)],
    listed_after: (await listed()).includes(group),
    cluster: {
      brokers: brokers.map(({ host, port }) => `${host}:${port}`),
      named: clusterId !== "",
    },
  }
}

async function deleteTopic(client, { topic }) {
  await client.deleteTopics({ topics: [topic] })
  await until(async () => !(await client.listTopics()).includes(topic))
  return { topic_after: (await client.listTopics()).includes(topic) }
}

// Let a group begin elsewhere: at an end of the topic, as kafkajs says it, or at an offset.
async function placeGroup({ bootstrap, topic, group, at }) {
  const client = connect(bootstrap).admin()
  await client.connect()
  try {
    if (at === "earliest" || at === "latest") {
      await client.resetOffsets({ groupId: group, topic, earliest: at === "earliest" })
    } else {
      const partitions = [{ partition: 0, offset: String(at) }]
      await client.setOffsets({ groupId: group, topic, partitions })
    }
    const [found] = await client.fetchOffsets({ groupId: group, topics: [topic] })
    return Number(found.partitions[0].offset)
  } finally {
    await client.disconnect()
  }
}

serve({ produce, consume, consumeInGroup, offsetAt, member, admin, placeGroup })
