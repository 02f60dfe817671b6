import { expect, test } from 'vitest'
import { type DaySums, dueDays, UNWRITTEN, withDay } from './export-days.ts'

const sums = (requests: number): DaySums => ({ requests: String(requests), costNanos: String(requests * 7) })
const books = new Map([
  ['2026-02-26', sums(1)],
  ['2026-02-28', sums(3)],
])
const written = { '2026-02-26': sums(1), '2026-02-27': sums(0), '2026-02-28': sums(3) }

test.each([
  ['at first, yesterday', {}, '2026-03-01', ['2026-02-28']],
  ['nothing new', written, '2026-03-01', []],
  ['a day has ended', written, '2026-03-02', ['2026-03-01']],
  ['days were missed', written, '2026-03-04', ['2026-03-01', '2026-03-02', '2026-03-03']],
  ['a charge came late', { ...written, '2026-02-26': sums(0) }, '2026-03-02', ['2026-02-26', '2026-03-01']],
  ['a day could not be read', withDay(written, '2026-02-27', UNWRITTEN), '2026-03-01', ['2026-02-27']],
])('%s', (_, days, today, due) => {
  expect(dueDays(days, books, today)).toEqual(due)
})

test('a day that has not ended by a clock that was set back is left as it is', () => {
  expect(dueDays(written, new Map([['2026-02-26', sums(1)]]), '2026-02-27')).toEqual([])
})

test('a run writes at most 31 days, the oldest first, and each day is compared for 35', () => {
  const first = dueDays(written, books, '2026-12-01')
  expect([first.length, first[0], first.at(-1)]).toEqual([31, '2026-03-01', '2026-03-31'])
  const after = first.reduce((days, day) => withDay(days, day, sums(0)), written as Record<string, DaySums>)
  expect(Object.keys(after).toSorted()[0]).toBe('2026-02-26')
  expect(dueDays(after, books, '2026-12-01')[0]).toBe('2026-04-01')
  expect(Object.keys(withDay(after, '2026-04-05', sums(0))).toSorted()[0]).toBe('2026-03-02')
  expect(withDay({}, '2026-02-28', sums(3))).toEqual({ '2026-02-28': sums(3) })
})
