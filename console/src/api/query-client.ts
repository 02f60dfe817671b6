import { type Query, QueryClient, type QueryFilters } from '@tanstack/react-query'
import { Problem } from './request.ts'

/** How often a query without an answer asks again. */
const OFFLINE_MS = 5_000

export const queryClient = new QueryClient({
  defaultOptions: {
    // A browser without a network fails at once, and the page says so.
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      staleTime: 5_000,
      refetchInterval: ({ state: { error } }) => (error instanceof Problem && error.status === 0 ? OFFLINE_MS : false),
      retry: (failures, error) =>
        failures < 2 && error instanceof Problem && (error.status === 0 || error.status >= 500),
      retryDelay: attempt => Math.min(1_000 * 2 ** attempt, 5_000),
    },
  },
})

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
