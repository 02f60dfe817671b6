import type { Interval } from '#api/reports.ts'

export const shownFigures = ['cost', 'tokens', 'requests'] as const
export const intervals = ['hour', 'day', 'week', 'month'] as const

export const splits = ['provider', 'model', 'key', 'member', 'label'] as const
export type Split = (typeof splits)[number]

export interface UsageSearch {
  readonly split?: Split
  readonly days?: number
  readonly interval?: Interval
  readonly show?: (typeof shownFigures)[number]
}

/** Keeps what is valid of the search parameters of an address. */
export function readUsageSearch(search: Record<string, unknown>): UsageSearch {
  const days = [1, 7, 30, 90, 365].find(each => each === Number(search.days))
  const interval = intervals.find(each => each === search.interval)
  const show = shownFigures.find(each => each === search.show)
  const split = splits.find(each => each === search.split)
  return { ...(split && { split }), ...(days && { days }), ...(interval && { interval }), ...(show && { show }) }
}
