import { expect, test } from 'vitest'
import type { Scheduler } from '../../base/runtime/scheduler.ts'
import { BatchQueue, type BatchQueueOptions } from './batch-queue.ts'

interface Entry {
  readonly customer: number
  readonly n: number
}

/** A queue on a clock that only `pass` moves. Each batch takes `takesMs`. */
function newQueue(more: Partial<BatchQueueOptions<Entry>>, takesMs = 0) {
  let nowMs = 0
  let timers: { readonly atMs: number; readonly work: () => void }[] = []
  const sent: { readonly atMs: number; readonly entries: readonly Entry[] }[] = []
  const scheduler: Scheduler = {
    epochMs: () => nowMs,
    monotonicMs: () => nowMs,
    soon: work => void scheduler.after(0, work),
    after(ms, work) {
      const timer = { atMs: nowMs + ms, work }
      timers.push(timer)
      return () => {
        timers = timers.filter(other => other !== timer)
      }
    },
  }
  const queue = new BatchQueue<Entry>({
    scheduler,
    send: entries => {
      sent.push({ atMs: nowMs, entries })
      return new Promise(resolve => scheduler.after(takesMs, () => resolve([])))
    },
    isWanted: () => true,
    onTransientError: () => {},
    onRejected: () => {},
    ...more,
  })
  /** Runs everything that is due within the next `ms`. */
  const pass = async (ms: number) => {
    const untilMs = nowMs + ms
    for (;;) {
      await new Promise(resolve => setImmediate(resolve))
      const due = timers.filter(timer => timer.atMs <= untilMs).sort((a, b) => a.atMs - b.atMs)[0]
      if (due === undefined) break
      timers = timers.filter(timer => timer !== due)
      nowMs = due.atMs
      due.work()
    }
    nowMs = untilMs
  }
  const pushMany = (count: number, customers = count) => {
    for (let n = 0; n < count; n++) queue.push({ customer: n % customers, n })
  }
  return { queue, sent, pass, pushMany }
}

test('entries of one group are sent in one batch, in the order in which they came', async () => {
  const { queue, sent, pass, pushMany } = newQueue({ groupOf: ({ customer }) => String(customer) })
  pushMany(3_000, 700)
  await pass(0)
  expect(queue.size).toBe(0)
  expect(sent.length).toBe(3)
  expect(sent.every(({ entries }) => entries.length <= 1_024)).toBe(true)
  const batchOf = new Map<number, number>()
  for (const [batch, { entries }] of sent.entries())
    for (const { customer } of entries)
      expect(batchOf.set(customer, batchOf.get(customer) ?? batch).get(customer)).toBe(batch)
  for (const { entries } of sent) {
    const last = new Map<number, number>()
    for (const { customer, n } of entries) {
      expect(n).toBeGreaterThan(last.get(customer) ?? -1)
      last.set(customer, n)
    }
  }
})

test('a group that is larger than a batch is divided', async () => {
  const { sent, pass, pushMany } = newQueue({ groupOf: ({ customer }) => String(customer) })
  pushMany(3_000, 1)
  await pass(0)
  expect(sent.map(({ entries }) => entries.length)).toEqual([1_024, 1_024, 952])
})

test('the linger follows from what was sent last, and a flush ends it', async () => {
  const last: object[] = []
  const { queue, sent, pass, pushMany } = newQueue({ lingerMs: of => last.push(of) * 100 }, 7)
  pushMany(2)
  await pass(120)
  pushMany(1)
  await pass(50)
  await Promise.all([queue.flush(), pass(10)])
  expect(last).toEqual([
    { entries: 0, busyMs: 0 },
    { entries: 2, busyMs: 7 },
  ])
  expect(sent.map(({ atMs }) => atMs)).toEqual([100, 170])
})

test('an entry that was answered while its batch waited for a lock is not sent again', async () => {
  const answered = new Set<number>()
  const batches: number[][] = []
  const { queue, pass } = newQueue({
    isWanted: ({ n }) => !answered.has(n),
    send: entries => {
      batches.push(entries.map(({ n }) => n))
      if (batches.length > 1) return Promise.resolve([])
      answered.add(0)
      return Promise.reject(Object.assign(new Error('lock timeout'), { code: '55P03' }))
    },
  })
  queue.push({ customer: 0, n: 0 })
  queue.push({ customer: 1, n: 1 })
  await pass(10)
  expect(batches).toEqual([[0, 1], [1]])
})
