import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Link, Navigate } from '@tanstack/react-router'
import { SignedInOnly } from '../../shell/SignedInOnly.tsx'
import { useHosterMemberships } from '../../shell/use-hoster.ts'
import { useSession } from '../../shell/use-session.ts'
import { codeText } from '../../texts/code-text.ts'
import { OutsideCard } from './OutsideCard.tsx'

/** The start: the sign-in, or the operator's pages, or the first customer of the person, or the first hoster. */
export function SignInPage() {
  return (
    <SignedInOnly>
      <Inside />
    </SignedInOnly>
  )
}

function Inside() {
  const { person, memberships, needs_second_factor: needsFactor } = useSession()
  const [first] = memberships
  // Without the second factor that they need, operators can use the pages of their customer only.
  if (person.role !== null && !needsFactor) return <Navigate to="/operator" replace />
  if (first !== undefined) return <Navigate to="/c/$customerId" params={{ customerId: first.customer_id }} replace />
  if (person.role !== null) return <Navigate to="/operator" replace />
  return <HosterOrNothing />
}

/** Tells a person whom an operator invited what happens next. */
function Invited({ role }: { role: string }) {
  const { has_factor: hasFactor } = useSession()
  return (
    <OutsideCard title={t`You are invited`}>
      <p>
        {hasFactor
          ? t`You are invited as ${role}. An operator gives you the role on the page People of this gateway, and then you sign in again. There is nothing else to do.`
          : t`You are invited as ${role}. Add a second factor first: an operator can give you the role only then.`}
      </p>
      <p>
        {hasFactor ? (
          <Link to="/account">{t`Your account`}</Link>
        ) : (
          <Link to="/account/second-factor">{t`Add a second factor`}</Link>
        )}
      </p>
    </OutsideCard>
  )
}

function HosterOrNothing() {
  const { person, invited_role: invitedRole } = useSession()
  const hosters = useHosterMemberships()
  const [first] = hosters ?? []
  if (first !== undefined) return <Navigate to="/h/$hosterId" params={{ hosterId: first.id }} replace />
  if (hosters === undefined) return null
  if (invitedRole !== null) return <Invited role={codeText(invitedRole)} />
  return (
    <OutsideCard title={t`No customer yet`}>
      <p>
        <Trans>
          You are signed in as {person.email}, and you are not a member of a customer. Ask an owner for an invitation.
        </Trans>
      </p>
      <p>
        <Link to="/h/apply">{t`Become a hoster`}</Link>
      </p>
    </OutsideCard>
  )
}
