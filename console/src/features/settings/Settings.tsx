import { t } from '@lingui/core/macro'
import { SegmentedControl } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { fromGateway } from '../../api/gateway-link.ts'
import { Page } from '../../parts/Page.tsx'
import { useCustomerId } from '../../shell/use-session.ts'
import { Account } from './Account.tsx'

// These take the most code of the settings, and are opened rarely.
const People = lazy(fromGateway(async () => ({ default: (await import('./People.tsx')).People })))
const Alerts = lazy(fromGateway(async () => ({ default: (await import('./Alerts.tsx')).Alerts })))
const Security = lazy(fromGateway(async () => ({ default: (await import('./Security.tsx')).Security })))

const tabs = {
  account: { label: t`Account`, Tab: Account },
  people: { label: t`People`, Tab: People },
  alerts: { label: t`Alerts`, Tab: Alerts },
  security: { label: t`Security`, Tab: Security },
} as const

/** The person, the alerts of the customer, and the sessions. */
export function Settings() {
  const customerId = useCustomerId()
  const { tab } = useParams({ strict: false })
  const navigate = useNavigate()
  const shown = (Object.keys(tabs) as (keyof typeof tabs)[]).find(name => name === tab) ?? 'account'
  const { Tab } = tabs[shown]
  return (
    <Page title={t`Settings`}>
      <div>
        <SegmentedControl
          aria-label={t`Part of the settings`}
          data={Object.entries(tabs).map(([value, { label }]) => ({ value, label }))}
          value={shown}
          onChange={value =>
            void navigate({ to: '/c/$customerId/settings/$tab', params: { customerId, tab: value }, replace: true })
          }
        />
      </div>
      <Suspense fallback={null}>
        <Tab />
      </Suspense>
    </Page>
  )
}
