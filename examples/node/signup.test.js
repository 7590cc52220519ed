// What the program sends, as a collector took it. COLLECTOR_URL says where one runs by
// collector dev, and COLLECTOR_TOKEN its admin token, if it has one.
import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { signUp, track } from './signup.js'

const collector = process.env.COLLECTOR_URL ?? 'http://127.0.0.1:8765'

/** Returns the calls that came since it was asked last. */
async function messages() {
  const token = process.env.COLLECTOR_TOKEN
  const response = await fetch(`${collector}/messages`, {
    method: 'POST',
    headers: token ? { Authorization: `Bearer ${token}` } : {},
  })
  assert.equal(response.status, 200)
  return response.json()
}

beforeEach(messages)

test('a sign-up is tracked', async () => {
  await signUp('user-123', 'Enterprise', collector)
  assert.deepEqual(await messages(), [
    { type: 'track', userId: 'user-123', event: 'Signed Up', properties: { plan: 'Enterprise' } },
  ])
})

test('a call without a user is rejected, as in production', async () => {
  await track(collector, 'web', { event: 'Signed Up' }) // answered 200, unless it is strict
  assert.deepEqual(await messages(), [])
})
