import { notifyManager, useQueryClient } from '@tanstack/react-query'
import { useSyncExternalStore } from 'react'
import { isAway } from '../api/request.ts'

/**
 * How old what the page shows is while the gateway does not answer.
 *
 * @returns the time, in milliseconds since 1970, of the oldest data that could not be read again; null: all is current
 */
export function useOldData(): number | null {
  const cache = useQueryClient().getQueryCache()
  return useSyncExternalStore(
    onChange => cache.subscribe(notifyManager.batchCalls(onChange)),
    () => {
      const shown = cache.getAll().filter(query => query.isActive() && query.state.data !== undefined)
      const failed = shown.filter(({ state: { error } }) => isAway(error))
      return failed.length === 0 ? null : Math.min(...failed.map(({ state }) => state.dataUpdatedAt))
    },
  )
}
