import { notifyManager, useQueryClient } from '@tanstack/react-query'
import { useSyncExternalStore } from 'react'
import { Problem } from '../api/request.ts'
import { When } from '../parts/When.tsx'
import styles from './shell.module.css'

/** Says that the gateway does not answer, and how old the shown data is. Screens keep what they have. */
export function Offline() {
  const cache = useQueryClient().getQueryCache()
  const dataFromMs = useSyncExternalStore(
    onChange => cache.subscribe(notifyManager.batchCalls(onChange)),
    () => {
      const shown = cache.getAll().filter(query => query.isActive() && query.state.data !== undefined)
      const failed = shown.filter(({ state: { error } }) => error instanceof Problem && error.status === 0)
      return failed.length === 0 ? null : Math.min(...failed.map(({ state }) => state.dataUpdatedAt))
    },
  )
  return (
    <div role="status">
      {dataFromMs !== null && (
        <div className={styles.notice}>
          The gateway does not answer. You see the data of <When at={new Date(dataFromMs).toISOString()} />. The page
          tries again by itself.
        </div>
      )}
    </div>
  )
}
