import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import type { OidcFinished } from '#api/oidc.ts'
import { request } from '../../api/request.ts'
import { FactorFields } from '../../parts/FactorFields.tsx'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { OutsideCard } from './OutsideCard.tsx'
import styles from './outside.module.css'
import { useEntry } from './use-entry.ts'

/**
 * Where another service sends the browser: hands its answer to the gateway, and asks for the second factor if there is
 * one.
 */
export function OidcReturn() {
  const [query] = useState(() => location.search)
  const client = useQueryClient()
  const finished = useQuery({
    queryKey: ['oidc', query],
    queryFn: () => request<OidcFinished>('POST', 'oidc/finish', { body: { query } }),
    // The answer of the service works once.
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  })
  // The code leaves the address and the history.
  useEffect(() => history.replaceState(history.state, '', location.pathname), [])
  const outcome = finished.data?.outcome
  const returnTo = finished.data?.return_to ?? '/'
  useEffect(() => {
    if (outcome === undefined || outcome === 'factor') return
    client.clear()
    leaveTo(returnTo)
  }, [outcome, returnTo, client])
  if (finished.error !== null) {
    return (
      <OutsideCard title={t`Not signed in`}>
        <FormProblem error={finished.error} />
        <Link to="/">{t`Go to the start`}</Link>
      </OutsideCard>
    )
  }
  if (outcome !== 'factor') {
    return (
      <OutsideCard title={t`Signing in`}>
        <p role="status">{t`One moment.`}</p>
      </OutsideCard>
    )
  }
  return (
    <OutsideCard title={t`Second factor`}>
      <FactorForm returnTo={returnTo} />
    </OutsideCard>
  )
}

function FactorForm({ returnTo }: { returnTo: string }) {
  const [code, setCode] = useState('')
  const entry = useEntry('oidc/factor', () => leaveTo(returnTo))
  return (
    <form
      className={styles.form}
      onSubmit={event => {
        event.preventDefault()
        entry.mutate({ code })
      }}
    >
      <FactorFields code={code} onCode={setCode} onPasskey={passkey => entry.mutate({ passkey })} />
      <FormProblem error={entry.error} />
      <Button type="submit" loading={entry.isPending}>{t`Sign in`}</Button>
    </form>
  )
}

/** The gateway has checked the path too. */
function leaveTo(path: string): void {
  location.replace(/^\/(?![/\\])/.test(path) ? path : '/')
}
