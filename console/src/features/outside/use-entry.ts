import { useMutation, useQueryClient } from '@tanstack/react-query'
import type { SignedInSession } from '#api/session.ts'
import { sessionQuery } from '../../api/queries.ts'
import { request } from '../../api/request.ts'

/** Sends a form that opens a session. Everything that the page shows is loaded again for the person. */
export function useEntry(path: string, onEntered?: (session: SignedInSession) => void) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (body: unknown) => request<SignedInSession>('POST', path, { body }),
    onSuccess: session => {
      client.setQueryData(sessionQuery.queryKey, session)
      void client.invalidateQueries({
        predicate: ({ queryKey }) => queryKey[0] !== 'session' && queryKey[0] !== 'invite',
      })
      onEntered?.(session)
    },
  })
}
