import { type Query, QueryCache, QueryClient, type QueryFilters } from '@tanstack/react-query'
import { isAway, Problem } from './request.ts'

/** How often a query without an answer asks again: the more rarely, the longer the gateway is away. */
const AWAY_MS = 2_000
const AWAY_MS_MAX = 30_000

let awaySinceMs: number | null = null

export const queryClient = new QueryClient({
  queryCache: new QueryCache({
    onError(error) {
      if (isAway(error)) awaySinceMs ??= performance.now()
    },
    onSuccess() {
      if (awaySinceMs === null) return
      awaySinceMs = null
      // The others need not wait for their turn.
      void queryClient.invalidateQueries({ predicate: ({ state: { error } }) => isAway(error) })
    },
  }),
  defaultOptions: {
    // A browser without a network fails at once, and the page says so.
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      staleTime: 5_000,
      refetchInterval: ({ state: { error } }) => (isAway(error) ? awayDelayMs() : false),
      retry: (failures, error) =>
        failures < 2 && error instanceof Problem && (error.status === 0 || error.status >= 500),
      retryDelay: attempt => Math.min(1_000 * 2 ** attempt, 5_000),
    },
  },
})

/** Half of the time that the gateway has been away, within bounds. */
export function awayDelayMs(): number {
  const awayMs = awaySinceMs === null ? 0 : performance.now() - awaySinceMs
  return Math.min(Math.max(awayMs / 2, AWAY_MS), AWAY_MS_MAX)
}

/**
 * Reads again what a change may have made old, and what is on its way for the first time: that may have been read
 * before the change.
 */
export async function readAgain(client: QueryClient, filters: QueryFilters = {}): Promise<void> {
  const matches = filters.predicate ?? (() => true)
  // invalidateQueries would wait for a first reading instead of reading again.
  const isFirst = (query: Query) => query.state.data === undefined && matches(query)
  await client.cancelQueries({ ...filters, fetchStatus: 'fetching', predicate: isFirst })
  await client.invalidateQueries(filters)
}
