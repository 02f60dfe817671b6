import { t } from '@lingui/core/macro'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { creditsQuery } from '../api/queries.ts'
import { useLive } from '../api/use-live.ts'
import { EmptyState } from '../parts/EmptyState.tsx'
import { Balance } from '../parts/Money.tsx'
import { Page } from '../parts/Page.tsx'
import { AddCreditLink } from './AddCreditLink.tsx'
import { TopAmount } from './Frame.tsx'
import { customerItems } from './nav-items.tsx'
import { CustomerVisit } from './on-demand.ts'
import { Shell } from './Shell.tsx'
import { SignedInOnly } from './SignedInOnly.tsx'
import styles from './shell.module.css'
import { useOldData } from './use-old-data.ts'
import { useCustomerId, useRights, useSession } from './use-session.ts'

/** The frame of a customer's screens. The balance is always visible. */
export function CustomerShell() {
  return (
    <SignedInOnly>
      <MembersOnly />
    </SignedInOnly>
  )
}

function MembersOnly() {
  const { role } = useRights()
  const { person } = useSession()
  if (role !== null || person.role !== null) return <Frame />
  return (
    <Page title={t`No access`}>
      <EmptyState text={t`You are not a member of this customer. Ask an owner for an invitation.`}>
        <Link to="/">{t`Go to the start`}</Link>
      </EmptyState>
    </Page>
  )
}

function Frame() {
  const customerId = useCustomerId()
  const { role, mayCredits } = useRights()
  const { person } = useSession()
  useLive(customerId)
  return (
    <Shell
      items={customerItems}
      top={
        <>
          <TopBalance customerId={customerId} />
          {(mayCredits || person.role === 'operator') && (
            <AddCreditLink
              customerId={customerId}
              variant="subtle"
              size="compact-sm"
              className={styles.addCredit ?? ''}
            />
          )}
        </>
      }
      notice={role === null && <CustomerVisit customerId={customerId} />}
    />
  )
}

function TopBalance({ customerId }: { customerId: string }) {
  const { data } = useQuery(creditsQuery(customerId))
  return (
    <Link to="/c/$customerId/credits" params={{ customerId }} className={styles.topBalance}>
      <TopAmount name={useOldData() === null ? t`Balance` : t`Last known balance`}>
        {data === undefined ? '…' : <Balance usd={data.balance_usd} />}
      </TopAmount>
    </Link>
  )
}
