import { Link } from '@tanstack/react-router'
import { EmptyState } from '../parts/EmptyState.tsx'
import {
  ActivityIcon,
  CheckIcon,
  CreditIcon,
  HomeIcon,
  ModelsIcon,
  PeopleIcon,
  ServerIcon,
  SettingsIcon,
  UsageIcon,
} from '../parts/icons.tsx'
import { Page } from '../parts/Page.tsx'
import { NotFound } from './NotFound.tsx'
import { type NavItem, Shell } from './Shell.tsx'
import { SignedInOnly } from './SignedInOnly.tsx'
import { useSession } from './use-session.ts'

const items: readonly NavItem[] = [
  { name: 'Overview', icon: <HomeIcon />, link: { to: '/operator' }, isExact: true },
  { name: 'Customers', icon: <PeopleIcon />, link: { to: '/operator/customers' } },
  { name: 'Usage', icon: <UsageIcon />, link: { to: '/operator/usage' } },
  { name: 'Money', icon: <CreditIcon />, link: { to: '/operator/money' } },
  { name: 'Models', icon: <ModelsIcon />, link: { to: '/operator/models' } },
  { name: 'Hosters', icon: <ServerIcon />, link: { to: '/operator/hosters' } },
  { name: 'Grants', icon: <CheckIcon />, link: { to: '/operator/grants' } },
  { name: 'Log', icon: <ActivityIcon />, link: { to: '/operator/log' } },
  { name: 'System', icon: <SettingsIcon />, link: { to: '/operator/system' } },
]

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
      items={items}
      notice={role === 'auditor' && 'You are an auditor. You can read everything and change nothing.'}
    />
  )
}

/** Operators add a second factor before they may do anything, except on the machine of the gateway. */
function FactorNeeded() {
  return (
    <Page title="Second factor needed">
      <EmptyState text="Your role on this installation needs a passkey or an authenticator app. If you have one, sign in again with it.">
        <Link to="/account">Add one in your account</Link>
      </EmptyState>
    </Page>
  )
}
