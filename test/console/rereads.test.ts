import { expect, test } from 'vitest'
import { Rereads } from '../../console/src/api/rereads.ts'

/** A timer whose time passes only when `pass` is called. */
function manualTimer() {
  let nowMs = 0
  const waiting = new Set<{ readonly atMs: number; readonly run: () => void }>()
  return {
    nowMs: () => nowMs,
    after(ms: number, run: () => void) {
      const entry = { atMs: nowMs + ms, run }
      waiting.add(entry)
      return () => waiting.delete(entry)
    },
    pass(ms: number) {
      const endMs = nowMs + ms
      for (;;) {
        const [next] = [...waiting].filter(({ atMs }) => atMs <= endMs).sort((a, b) => a.atMs - b.atMs)
        if (next === undefined) break
        waiting.delete(next)
        nowMs = next.atMs
        next.run()
      }
      nowMs = endMs
    },
  }
}

function watched() {
  const timer = manualTimer()
  const read: string[] = []
  return { timer, read, rereads: new Rereads(area => read.push(`${area} at ${timer.nowMs() / 1000} s`), timer) }
}

test('one request shows in all areas after two seconds', () => {
  const { timer, read, rereads } = watched()
  rereads.plan('credits', 2_000)
  rereads.plan('usage', 10_000)
  timer.pass(60_000)
  expect(read).toEqual(['credits at 2 s', 'usage at 2 s'])
})

test('while requests go on, the balance is read every two seconds and sums every ten', () => {
  const { timer, read, rereads } = watched()
  for (let second = 0; second < 13; second++) {
    rereads.plan('credits', 2_000)
    rereads.plan('usage', 10_000)
    timer.pass(1_000)
  }
  expect(read.filter(text => text.startsWith('usage'))).toEqual(['usage at 2 s', 'usage at 12 s'])
  expect(read.filter(text => text.startsWith('credits'))).toEqual([2, 4, 6, 8, 10, 12].map(at => `credits at ${at} s`))
})

test('what a person changes shows soon, also while requests go on', () => {
  const { timer, read, rereads } = watched()
  rereads.plan('people', 10_000)
  timer.pass(3_000)
  rereads.plan('people', 10_000)
  rereads.plan('people', 2_000)
  timer.pass(60_000)
  expect(read).toEqual(['people at 2 s', 'people at 5 s'])
})

test('a page that closes reads nothing any more', () => {
  const { timer, read, rereads } = watched()
  rereads.plan('credits', 2_000)
  rereads.end()
  timer.pass(60_000)
  expect(read).toEqual([])
})
