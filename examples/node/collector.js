// Test helpers for a collector that was started with collector dev. COLLECTOR_URL is its URL,
// and COLLECTOR_TOKEN its admin token, if it has one.
import assert from 'node:assert/strict'

export const collector = process.env.COLLECTOR_URL ?? 'http://127.0.0.1:8765'

function post(path, body = {}) {
  const headers = { 'Content-Type': 'application/json' }
  if (process.env.COLLECTOR_TOKEN) headers.Authorization = `Bearer ${process.env.COLLECTOR_TOKEN}`
  return fetch(collector + path, { method: 'POST', headers, body: JSON.stringify(body) })
}

/** Hides all earlier calls from the tests. */
export async function reset() {
  const response = await post('/reset')
  assert.equal(response.status, 200, await response.text())
}

/** Waits until the calls match the expectations. Throws an error with the differences if they do not. */
export async function expectCalls(...expect) {
  const response = await post('/expect', { within: '10s', expect })
  const { message } = await response.json()
  assert.equal(response.status, 200, message)
}
