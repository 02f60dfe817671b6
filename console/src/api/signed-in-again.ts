import type { QueryClient } from '@tanstack/react-query'
import { sessionQuery } from './queries.ts'

/** Asks for the session again, and resolves once there is one, or when the signal is aborted. */
export async function signedInAgain(client: QueryClient, signal: AbortSignal): Promise<void> {
  const { queryKey } = sessionQuery
  await client.invalidateQueries({ queryKey })
  const isSignedIn = () => client.getQueryState(queryKey)?.status === 'success'
  if (isSignedIn() || signal.aborted) return
  await new Promise<void>(resolve => {
    const end = () => {
      unsubscribe()
      resolve()
    }
    const unsubscribe = client.getQueryCache().subscribe(() => {
      if (isSignedIn()) end()
    })
    signal.addEventListener('abort', end, { once: true })
  })
}
