// Tests of the calls that the program sends.
import assert from 'node:assert/strict'
import { after, beforeEach, test } from 'node:test'
import { startCollector } from 'analytics-collector-testkit'
import { signUp, track } from './signup.js'

const collector = await startCollector()
after(() => collector.stop())
beforeEach(() => collector.reset())

test('a sign-up is tracked once, and nothing is rejected', async () => {
  await signUp('user-123', 'Enterprise', collector.url)
  await collector.expectCalls([
    { type: 'track', event: 'Signed Up', userId: 'user-123', properties: { plan: 'Enterprise' }, count: 1 },
    { bad: true, count: 0 },
  ])
})

test('a call without a user is rejected, as in production', async () => {
  await track(collector.url, 'web', { event: 'Signed Up' }) // responds with 200 unless strict is set
  await collector.expectCalls([{ bad: true, code: 'no_user_anon_id' }, { type: 'track', count: 0 }])
})

test('a failure names the difference', async () => {
  await signUp('user-123', 'Free', collector.url)
  await assert.rejects(
    collector.expectCalls([{ event: 'Signed Up', properties: { plan: 'Enterprise' } }, { event: 'Signed Up', count: 0 }]),
    /properties\.plan is "Free", want "Enterprise"/,
  )
})
