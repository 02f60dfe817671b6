import { ActivityIcon, CreditIcon, HomeIcon, PeopleIcon, SettingsIcon } from '../parts/icons.tsx'
import { NotFound } from './NotFound.tsx'
import { type NavItem, Shell } from './Shell.tsx'
import { SignedInOnly } from './SignedInOnly.tsx'
import { useSession } from './use-session.ts'

const items: readonly NavItem[] = [
  { name: 'Overview', icon: <HomeIcon />, link: { to: '/operator' }, isExact: true },
  { name: 'Customers', icon: <PeopleIcon />, link: { to: '/operator/customers' } },
  { name: 'Grants', icon: <CreditIcon />, link: { to: '/operator/grants' } },
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
  if (role === null) return <NotFound />
  return (
    <Shell
      items={items}
      notice={role === 'auditor' && 'You are an auditor. You can read everything and change nothing.'}
    />
  )
}
