// Lines of JSON in and out, bytes as base64: what the JavaScript drivers share.
"use strict"

const readline = require("node:readline")
const { setTimeout: sleep } = require("node:timers/promises")
const { pathToFileURL } = require("node:url")

// Far more than anything here takes.
const PATIENCE_MS = 60000

// A package that is an ECMAScript module; NODE_PATH, where it is, holds only for require.
function load(name) {
  return import(pathToFileURL(require.resolve(name)))
}

function toBytes(text) {
  return text === null ? null : Buffer.from(text, "base64")
}

function toText(bytes) {
  return bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString("base64")
}

// The same clock in every process of the machine, so that the events of several can be ordered.
function tell(event) {
  const at_ns = process.hrtime.bigint().toString()
  process.stdout.write(JSON.stringify({ ...event, at_ns }) + "\n")
}

// Kafka's broker learns of a change a moment after the client was told that it is done.
async function until(condition) {
  const deadline_ms = Date.now() + PATIENCE_MS
  while (!(await condition())) {
    if (Date.now() > deadline_ms) throw new Error(`not within ${PATIENCE_MS} ms: ${condition}`)
    await sleep(20)
  }
}

// One call at a time. `member` is told to end by an empty line or the end of the input.
async function serve(calls) {
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  for (;;) {
    const { value: line, done } = await lines.next()
    if (done) process.exit(0)
    const { call, ...request } = JSON.parse(line)
    const more = call === "member" ? { tell, closing: lines.next() } : {}
    let answer
    try {
      const result = await calls[call]({ ...request, ...more })
      answer = { result: result === undefined ? null : result }
    } catch (error) {
      answer = { error: String(error.stack || error) }
    }
    tell({ event: "answer", ...answer })
  }
}

module.exports = { load, serve, tell, toBytes, toText, until }
