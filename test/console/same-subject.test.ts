import { expect, test } from 'vitest'
import { earningsQuery, hosterQuery } from '../../console/src/api/hoster-queries.ts'
import { customersQuery, hosterMoneyQuery, operatorUsageQuery } from '../../console/src/api/operator-queries.ts'
import { activityQuery, breakdownQuery, creditsQuery, receiptQuery } from '../../console/src/api/queries.ts'

interface Query {
  readonly queryKey: readonly unknown[]
  readonly placeholderData?: unknown
}

/** What a screen shows while it loads `next` after `former`, as TanStack Query asks for it. */
function shownMeanwhile(former: Query, next: Query): unknown {
  const placeholder = next.placeholderData as (data: unknown, query: Query) => unknown
  return placeholder('the former data', former)
}

const july = { from: '2026-07-01', until: '2026-07-31' }

test.each([
  ['another customer', creditsQuery('a'), creditsQuery('b')],
  ['the requests of another customer', activityQuery('a', {}), activityQuery('b', {})],
  ['another receipt', receiptQuery('a', 'r1'), receiptQuery('a', 'r2')],
  ['another hoster', hosterQuery('a'), hosterQuery('b')],
  ['the money of another hoster', hosterMoneyQuery('a'), hosterMoneyQuery('b')],
])('%s shows nothing of the former while it loads', (_, former, next) => {
  expect(shownMeanwhile(former, next)).toBeUndefined()
})

test.each([
  ['days', breakdownQuery('a', 7), breakdownQuery('a', 30)],
  ['filter of requests', activityQuery('a', {}), activityQuery('a', { model: 'm' })],
  ['span', earningsQuery('a', july), earningsQuery('a', { ...july, until: '2026-07-14' })],
  ['search', customersQuery({}), customersQuery({ search: 'ada' })],
  ['sum', operatorUsageQuery({ by: 'model' }), operatorUsageQuery({ by: 'customer' })],
])('another %s shows the former data while it loads', (_, former, next) => {
  expect(shownMeanwhile(former, next)).toBe('the former data')
})
