import { HomeIcon, ServerIcon, SettingsIcon } from '../parts/icons.tsx'
import { type NavItem, Shell } from './Shell.tsx'
import { SignedInOnly } from './SignedInOnly.tsx'

const items: readonly NavItem[] = [
  { name: 'Start', icon: <HomeIcon />, link: { to: '/' }, isExact: true },
  { name: 'Your account', icon: <SettingsIcon />, link: { to: '/account' } },
  { name: 'Become a hoster', icon: <ServerIcon />, link: { to: '/h/apply' } },
]

/** The frame of the person's own page and of applications, also for people who are no member of a customer. */
export function AccountShell() {
  return (
    <SignedInOnly>
      <Shell items={items} />
    </SignedInOnly>
  )
}
