import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { startCollector } from 'analytics-collector-testkit'
import { signUp } from './signup.mjs' // your code

let collector
beforeAll(async () => { collector = await startCollector() })
afterAll(() => collector?.stop())
beforeEach(() => collector.reset())

test('a sign-up is tracked', async () => {
  await signUp('user-123', 'Enterprise', collector.url)
  await collector.expectCall({ event: 'Signed Up', properties: { plan: 'Enterprise' }, count: 1 })
})

test('a failure names the differences', async () => {
  await signUp('user-123', 'Free', collector.url)
  const failed = collector.expectCall({ event: 'Signed Up', properties: { plan: 'Enterprise' } }, { within: '100ms' })
  await expect(failed).rejects.toMatchObject({ name: 'ExpectationError', report: { ok: false } })
  await expect(failed).rejects.toThrow('properties.plan is "Free", want "Enterprise"')
})

test('a write key separates the calls of parallel tests', async () => {
  await signUp('user-1', 'Free', collector.url, 'worker-1')
  await signUp('user-2', 'Free', collector.url, 'worker-2')
  const one = collector.withWriteKey('worker-1')
  await one.expectCalls([{ userId: 'user-1' }, { userId: 'user-2', count: 0 }], { within: '100ms' })
  expect(await one.calls()).toHaveLength(1)
  await one.reset()
  expect(await one.calls()).toHaveLength(0)
  expect(await collector.calls({ event: 'Signed Up' })).toHaveLength(1)
})

test('an invalid expectation is an error', async () => {
  await expect(collector.expectCall({ evnt: 'Signed Up' })).rejects.toThrow(/400: .*evnt/)
})

test('a missing program is an error that names the fix', async () => {
  await expect(startCollector({ command: '/missing/collector' })).rejects.toThrow(/cannot start \/missing\/collector: .*COLLECTOR_COMMAND/)
})

test('a program that ends is an error with its output', async () => {
  await expect(startCollector({ args: ['--no-such-flag'] })).rejects.toThrow(/unknown flag: --no-such-flag/)
})

test('a collector that does not run is an error', async () => {
  const stopped = await startCollector()
  await stopped.stop()
  await expect(stopped.reset()).rejects.toThrow(`the collector at ${stopped.url} does not respond`)
})
