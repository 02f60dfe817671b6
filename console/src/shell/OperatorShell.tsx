import { t } from '@lingui/core/macro'
import { Suspense } from 'react'
import { NotFound } from './NotFound.tsx'
import { operatorItems } from './nav-items.tsx'
import { FactorNeeded } from './on-demand.ts'
import { Shell } from './Shell.tsx'
import { SignedInOnly } from './SignedInOnly.tsx'
import { useSession } from './use-session.ts'

/** The frame of the operator's screens. */
export function OperatorShell() {
  return (
    <SignedInOnly>
      <Frame />
    </SignedInOnly>
  )
}

function Frame() {
  const { role } = useSession().person
  const needsFactor = useSession().needs_second_factor
  if (role === null) return <NotFound />
  if (needsFactor) {
    return (
      <Suspense>
        <FactorNeeded />
      </Suspense>
    )
  }
  return (
    <Shell
      items={operatorItems}
      notice={role === 'auditor' && t`You are an auditor. You can read everything and change nothing.`}
    />
  )
}
