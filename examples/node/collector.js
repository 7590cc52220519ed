// What tests ask of a collector that runs by collector dev. COLLECTOR_URL says where it is,
// and COLLECTOR_TOKEN is its admin token, if it has one.
import assert from 'node:assert/strict'

export const collector = process.env.COLLECTOR_URL ?? 'http://127.0.0.1:8765'

function post(path, body = {}) {
  const headers = { 'Content-Type': 'application/json' }
  if (process.env.COLLECTOR_TOKEN) headers.Authorization = `Bearer ${process.env.COLLECTOR_TOKEN}`
  return fetch(collector + path, { method: 'POST', headers, body: JSON.stringify(body) })
}

/** Has the tests begin anew: what came before does not count any more. */
export async function reset() {
  const response = await post('/reset')
  assert.equal(response.status, 200, await response.text())
}

/** Waits until the calls that came are as expected, and throws with what differs. */
export async function expectCalls(...expect) {
  const response = await post('/expect', { within: '10s', expect })
  const answer = await response.json()
  assert.equal(response.status, 200, answer.message)
}
