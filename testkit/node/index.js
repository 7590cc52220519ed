'use strict'
// A CommonJS module, because Jest does not load ES modules from node_modules.
const { spawn } = require('node:child_process')
const { mkdtemp, rm } = require('node:fs/promises')
const { tmpdir } = require('node:os')
const { join } = require('node:path')

const startTimeout = 30_000 // milliseconds

/** The error of an unmet expectation. Its message lists the differences to the most similar call. */
class ExpectationError extends Error {
  constructor(report) {
    super(report.message)
    this.name = 'ExpectationError'
    this.report = report
  }
}

class Collector {
  #token
  #filter
  #stop

  constructor(url, { token, writeKey, stop } = {}) {
    this.url = url.replace(/\/$/, '')
    this.#token = token
    this.#filter = writeKey ? { writeKey } : {}
    this.#stop = stop ?? (async () => {})
  }

  withWriteKey(writeKey) {
    return new Collector(this.url, { token: this.#token, writeKey })
  }

  async reset() {
    await this.#request('POST', `/reset?${this.#query()}`, {})
  }

  async expectCall(expectation, options) {
    await this.expectCalls([expectation], options)
  }

  async expectCalls(expect, options) {
    const body = { within: '10s', ...this.#filter, ...options, expect }
    const report = await this.#request('POST', '/expect', body, 422)
    if (!report.ok) throw new ExpectationError(report)
  }

  async calls(filter = {}) {
    return this.#list('/good', filter)
  }

  async rejectedCalls(filter = {}) {
    return this.#list('/bad', filter)
  }

  async stop() {
    await this.#stop()
  }

  async #list(path, filter) {
    return (await this.#request('GET', `${path}?${this.#query({ limit: 500, ...filter })}`)).calls
  }

  #query(parameters) {
    return new URLSearchParams({ ...this.#filter, ...parameters })
  }

  // #request returns the JSON of a response with status 200 or the status allowed.
  async #request(method, path, body, allowed = 200) {
    const headers = { 'Content-Type': 'application/json' }
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`
    let response
    try {
      response = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) })
    } catch (error) {
      throw new Error(`the collector at ${this.url} does not respond: ${error.cause?.message ?? error.message}`, { cause: error })
    }
    const text = await response.text()
    if (response.status !== 200 && response.status !== allowed) {
      throw new Error(`the collector at ${this.url} responded to ${method} ${path} with ${response.status}: ${text.slice(0, 2000)}`)
    }
    return JSON.parse(text)
  }
}

async function startCollector({
  url = process.env.COLLECTOR_URL,
  token = process.env.COLLECTOR_TOKEN,
  command = process.env.COLLECTOR_COMMAND ?? 'collector',
  args = [],
} = {}) {
  if (url) return new Collector(url, { token })
  const data = await mkdtemp(join(tmpdir(), 'collector-'))
  const child = spawn(command, ['dev', '--quiet', '--listen', '127.0.0.1:0', '--data', data, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  const exited = new Promise((resolve) => child.once('close', resolve).once('error', resolve))
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  for (const handle of [child, child.stdout, child.stderr]) handle?.unref() // the process may end without stop
  const stop = async () => {
    child.kill()
    await exited
    process.off('exit', kill)
    await rm(data, { recursive: true, force: true })
  }
  try {
    return new Collector(await address(child, command), { stop })
  } catch (error) {
    await stop()
    throw error
  }
}

// address waits until the process prints its address.
function address(child, command) {
  return new Promise((resolve, reject) => {
    let output = ''
    const fail = (message) => {
      clearTimeout(timer)
      reject(new Error(message))
    }
    const timer = setTimeout(() => fail(`${command} did not start within 30 seconds: ${output}`), startTimeout)
    const read = (chunk) => {
      output = (output + chunk).slice(-4000)
      const found = /Send calls to\s+(http:\S+)/.exec(output)
      if (!found) return
      clearTimeout(timer)
      resolve(found[1])
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    child.once('close', (code) => fail(`${command} exited with ${code}: ${output}`))
    child.once('error', (error) =>
      fail(`cannot start ${command}: ${error.message}. Install the collector, or set COLLECTOR_COMMAND to its path or COLLECTOR_URL to the URL of a running one`),
    )
  })
}

module.exports = { startCollector, Collector, ExpectationError }
