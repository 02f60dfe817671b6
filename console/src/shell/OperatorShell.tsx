import { t } from '@lingui/core/macro'
import { Link } from '@tanstack/react-router'
import { EmptyState } from '../parts/EmptyState.tsx'
import { Page } from '../parts/Page.tsx'
import { NotFound } from './NotFound.tsx'
import { operatorItems } from './nav-items.tsx'
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
  if (needsFactor) return <FactorNeeded />
  return (
    <Shell
      items={operatorItems}
      notice={role === 'auditor' && t`You are an auditor. You can read everything and change nothing.`}
    />
  )
}

/** Operators add a second factor before they may do anything, except on the machine of the gateway. */
function FactorNeeded() {
  return (
    <Page title={t`Second factor needed`}>
      <EmptyState
        text={t`Your role on this installation needs a passkey or an authenticator app. If you have one, sign in again with it.`}
      >
        <Link to="/account">{t`Add one in your account`}</Link>
      </EmptyState>
    </Page>
  )
}
