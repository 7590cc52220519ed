/** A pattern for calls. See https://github.com/seed-45eadc4a/analytics-go/blob/main/docs/testing.md#expectations. */
export interface Expectation {
  type?: 'track' | 'identify' | 'page' | 'screen' | 'group' | 'alias'
  event?: string
  userId?: unknown
  anonymousId?: unknown
  properties?: unknown
  traits?: unknown
  context?: unknown
  /** Exactly this number of calls match. By default, at least one matches. */
  count?: number
  atLeast?: number
  atMost?: number
  /** Expects a rejected call. `code` is the reason. */
  bad?: boolean
  code?: string
  [field: string]: unknown
}

export interface ExpectOptions {
  /** The time limit for calls to arrive, such as "5s". The default is 10s. */
  within?: string
  /** The time to wait for extra calls, such as "250ms". */
  settle?: string
  /** Whether calls must arrive in the order of the expectations. */
  ordered?: boolean
}

/** One accepted or rejected call. */
export interface ListedCall {
  good: boolean
  source: string
  receivedAt: string
  call?: Record<string, any>
  code?: string
  reason?: string
}

export class Collector {
  /** The collector's URL: the endpoint for calls, without a slash at the end. */
  readonly url: string
  constructor(url: string, options?: { token?: string; writeKey?: string })
  /** Returns a Collector that sees only the calls with this write key, for tests that run in parallel. */
  withWriteKey(writeKey: string): Collector
  /** Hides all earlier calls from the tests. */
  reset(): Promise<void>
  /** Waits until a call matches. Throws an ExpectationError with the differences if none does. */
  expectCall(expectation: Expectation, options?: ExpectOptions): Promise<void>
  /** Waits until all expectations are met. Throws an ExpectationError with the differences if they are not. */
  expectCalls(expectations: Expectation[], options?: ExpectOptions): Promise<void>
  /** Returns the accepted calls that match a filter, such as { event: 'Signed Up' }. At most 500 calls. */
  calls(filter?: Record<string, string>): Promise<ListedCall[]>
  /** Returns the rejected calls that match a filter. At most 500 calls. */
  rejectedCalls(filter?: Record<string, string>): Promise<ListedCall[]>
  /** Stops the collector if startCollector started it. */
  stop(): Promise<void>
}

export interface StartOptions {
  /** The URL of a running collector. The default is COLLECTOR_URL. If both are empty, startCollector starts one. */
  url?: string
  /** The admin token of a running collector. The default is COLLECTOR_TOKEN. */
  token?: string
  /** The path of the command. The default is COLLECTOR_COMMAND, or collector in PATH. */
  command?: string
  /** Additional arguments of collector dev. */
  args?: string[]
}

/** Starts a collector on a free port with an empty directory, or connects to a running one. */
export function startCollector(options?: StartOptions): Promise<Collector>

/** The error of an unmet expectation. Its message lists the differences to the most similar call. */
export class ExpectationError extends Error {
  readonly report: Record<string, any>
}
