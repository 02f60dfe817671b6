import { useQuery, useQueryClient } from '@tanstack/react-query'
import { lazy, type ReactNode, Suspense, useEffect } from 'react'
import { fromGateway } from '../api/gateway-link.ts'
import { sessionQuery } from '../api/queries.ts'
import { Problem } from '../api/request.ts'
import { ProblemBlock } from '../parts/ProblemBlock.tsx'

// Most pages open with a session.
const SignInCard = lazy(
  fromGateway(async () => ({ default: (await import('../features/outside/SignInCard.tsx')).SignInCard })),
)
const SessionEnded = lazy(fromGateway(async () => ({ default: (await import('./SessionEnded.tsx')).SessionEnded })))

/**
 * Shows its children to people that are signed in, and the sign-in to all others, at the same address. A session that
 * ends while a screen is open asks for the password over the screen, which then goes on for the same person.
 */
export function SignedInOnly({ children }: { children: ReactNode }) {
  const session = useQuery(sessionQuery)
  useSessionWatch()
  const isOther = useIsOtherPerson(session.data?.person.id)
  if (isOther) return null
  if (session.data !== undefined) {
    return (
      <>
        {children}
        {isSignedOut(session.error) && (
          <Suspense>
            <SessionEnded email={session.data.person.email} />
          </Suspense>
        )}
      </>
    )
  }
  if (isSignedOut(session.error)) {
    return (
      <Suspense>
        <SignInCard />
      </Suspense>
    )
  }
  if (session.error !== null) return <ProblemBlock error={session.error} onRetry={() => session.refetch()} />
  return null
}

let firstPerson: string | undefined

/**
 * Whether another person has signed in since this tab was loaded. Then it loads again: its data, its talk and the key of
 * its playground are of the person before.
 */
function useIsOtherPerson(personId: string | undefined): boolean {
  const isOther = personId !== undefined && firstPerson !== undefined && personId !== firstPerson
  useEffect(() => {
    if (isOther) location.reload()
    else firstPerson ??= personId
  }, [isOther, personId])
  return isOther
}

function isSignedOut(error: Error | null): boolean {
  return error instanceof Problem && error.code === 'not_signed_in'
}

/** Asks for the session again when another request was refused for the lack of one. */
function useSessionWatch(): void {
  const client = useQueryClient()
  useEffect(
    () =>
      client.getQueryCache().subscribe(({ type, query }) => {
        if (type !== 'updated' || query.queryKey[0] === 'session' || !isSignedOut(query.state.error)) return
        void client.invalidateQueries({ queryKey: sessionQuery.queryKey })
      }),
    [client],
  )
}
