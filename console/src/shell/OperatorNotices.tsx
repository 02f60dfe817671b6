import { t } from '@lingui/core/macro'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { customerQuery, hosterReviewQuery } from '../api/operator-queries.ts'
import { EmptyState } from '../parts/EmptyState.tsx'
import { FirstFactorCommand } from '../parts/FirstFactorCommand.tsx'
import { Page } from '../parts/Page.tsx'
import { Panel } from '../parts/Panel.tsx'
import { useSession } from './use-session.ts'

// What the frames say to operators and auditors only: see on-demand.ts.

/** Says on every page that a person with a role on the installation has no second factor, and leads to adding one. */
export function FactorNotice() {
  const { needs_second_factor: needsFactor } = useSession()
  return (
    <p>
      {needsFactor
        ? t`The operator's pages are closed in this session: your role needs a second factor.`
        : t`You have no second factor. After your next sign-in, the operator's pages stay closed without one.`}{' '}
      {needsFactor ? (
        <Link to="/operator">{t`What to do`}</Link>
      ) : (
        <Link to="/account/second-factor">{t`Add a second factor`}</Link>
      )}
    </p>
  )
}

/** Says whose pages an operator is viewing, with a link back to the operator's own. */
export function CustomerVisit({ customerId }: { customerId: string }) {
  const name = useQuery(customerQuery(customerId)).data?.email ?? customerId
  return (
    <p>
      {t`You look at the customer ${name} as an operator. You can read everything and change nothing.`}{' '}
      <Link to="/operator/customers/$customerId" params={{ customerId }}>{t`Back to the operator's pages`}</Link>
    </p>
  )
}

/** The same for a hoster. */
export function HosterVisit({ hosterId }: { hosterId: string }) {
  const name = useQuery(hosterReviewQuery(hosterId)).data?.name ?? hosterId
  return (
    <p>
      {t`You look at the hoster ${name} as an operator. You can read everything and change nothing here.`}{' '}
      <Link to="/operator/hosters/$hosterId" params={{ hosterId }}>{t`Back to the operator's pages`}</Link>
    </p>
  )
}

/** Operators add a second factor before they may do anything, except on the machine of the gateway. */
export function FactorNeeded() {
  const { has_factor: hasFactor, first_factor_command: command } = useSession()
  return (
    <Page title={t`Second factor needed`}>
      {command !== null && (
        <Panel>
          <FirstFactorCommand command={command} />
        </Panel>
      )}
      {command === null && hasFactor && (
        <EmptyState
          text={t`Your role on this installation needs a session with your second factor. Sign out, then sign in with it.`}
        />
      )}
      {command === null && !hasFactor && (
        <EmptyState text={t`Your role on this installation needs a passkey or an authenticator app.`}>
          <Link to="/account/second-factor">{t`Add one`}</Link>
        </EmptyState>
      )}
      <p>
        <Link to="/account">{t`Your account`}</Link>
      </p>
    </Page>
  )
}
