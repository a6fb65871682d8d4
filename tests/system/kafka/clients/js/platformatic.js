// @platformatic/kafka as a driver; see kafkajs.js for the protocol.
"use strict"

const { load, serve, toBytes, toText, until } = require("./lines")

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

// A round of administration; what the broker told on the way.
async function admin(request) {
  const { Admin } = await library
  const client = new Admin({ clientId: "platformatic", bootstrapBrokers: [request.bootstrap] })
  try {
    return {
      ...(await administerTopic(client, request)),
      ...(await administerGroups(client, request)),
      ...(await deleteTopic(client, request)),
    }
  } finally {
    await client.close()
  }
}

async function administerTopic(client, request) {
  const { ConfigResourceTypes, IncrementalAlterConfigOperationTypes, ListOffsetTimestamps } =
    await library
  const { topic, messages } = request
  const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }
  const partitions = async () => {
    const found = await client.metadata({ topics: [topic], forceUpdate: true })
    return found.topics.get(topic).partitionsCount
  }
  const retention = async () => {
    const asked = { ...resource, configurationKeys: ["retention.ms"] }
    const [found] = await client.describeConfigs({ resources: [asked] })
    return found.configs[0].value
  }
  const offset = async (timestamp) => {
    const asked = { name: topic, partitions: [{ partitionIndex: 0, timestamp }] }
    const [found] = await client.listOffsets({ topics: [asked] })
    return Number(found.partitions[0].offset)
  }
  const configs = [{ name: "retention.ms", value: "-1" }]
  await client.createTopics({ topics: [topic], partitions: 2, replicas: 1, configs })
  const created = { partitions: await partitions(), retention_ms: await retention() }
  await client.createPartitions({ topics: [{ name: topic, count: 3 }] })
  await until(async () => (await partitions()) === 3)
  const changed = { name: "retention.ms", value: "9000000000000" }
  const configOperation = IncrementalAlterConfigOperationTypes.SET
  await client.incrementalAlterConfigs({
    resources: [{ ...resource, configs: [{ ...changed, configOperation }] }],
  })
  await until(async () => (await retention()) === changed.value)
  await produce(request)
  const at_time = await offset(BigInt(messages[4].timestamp_ms))
  await client.deleteRecords({
    topics: [{ name: topic, partitions: [{ partition: 0, offset: 3n }] }],
  })
  return {
    created,
    at_time,
    earliest: await offset(ListOffsetTimestamps.EARLIEST),
    latest: await offset(ListOffsetTimestamps.LATEST),
  }
}

async function administerGroups(client, { topic, group, joined }) {
  const described = (await client.describeGroups({ groups: [joined] })).get(joined)
  const partitionOffsets = [{ partition: 0, offset: 5n }]
  await client.alterConsumerGroupOffsets({
    groupId: group,
    topics: [{ name: topic, partitionOffsets }],
  })
  const [committed] = await client.listConsumerGroupOffsets({ groups: [group] })
  const groups = await client.listGroups()
  await client.deleteGroups({ groups: [group] })
  const { brokers, id } = await client.metadata({ topics: [], forceUpdate: true })
  return {
    joined: {
      state: described.state,
      clients: [...described.members.values()].map(({ clientId }) => clientId),
    },
    committed: Number(committed.topics[0].partitions[0].committedOffset),
    listed: [groups.has(joined), groups.has(group)],
    listed_after: (await client.listGroups()).has(group),
    cluster: {
      brokers: [...brokers.values()].map(({ host, port }) => `${host}:${port}`),
      named: id !== "",
    },
  }
}

async function deleteTopic(client, { topic }) {
  await client.deleteTopics({ topics: [topic] })
  await until(async () => !(await client.listTopics()).includes(topic))
  return { topic_after: (await client.listTopics()).includes(topic) }
}

serve({ produce, consume, consumeInGroup, offsetAt, admin })
