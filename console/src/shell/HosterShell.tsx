import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { earningsQuery, hosterMembershipsQuery, lastDays } from '../api/hoster-queries.ts'
import { ActivityIcon, CheckIcon, CreditIcon, HomeIcon, ModelsIcon, ServerIcon, SettingsIcon } from '../parts/icons.tsx'
import { Loaded } from '../parts/Loaded.tsx'
import { Balance } from '../parts/Money.tsx'
import { NotFound } from './NotFound.tsx'
import { type NavItem, Shell } from './Shell.tsx'
import { SignedInOnly } from './SignedInOnly.tsx'
import styles from './shell.module.css'
import { useHosterId, useHosterRights } from './use-hoster.ts'
import { useSession } from './use-session.ts'

/** The frame of a hoster's screens. What is payable is always visible. */
export function HosterShell() {
  return (
    <SignedInOnly>
      <MembersOnly />
    </SignedInOnly>
  )
}

function MembersOnly() {
  const memberships = useQuery(hosterMembershipsQuery)
  const { person } = useSession()
  const hosterId = useHosterId()
  return (
    <Loaded query={memberships} height={0}>
      {({ data }) => (person.role !== null || data.some(({ id }) => id === hosterId) ? <Frame /> : <NotFound />)}
    </Loaded>
  )
}

function Frame() {
  const hosterId = useHosterId()
  const { role, seesEarnings } = useHosterRights()
  const params = { hosterId }
  const items: readonly NavItem[] = [
    { name: 'Overview', icon: <HomeIcon />, link: { to: '/h/$hosterId', params }, isExact: true },
    { name: 'Offers', icon: <ModelsIcon />, link: { to: '/h/$hosterId/offers', params } },
    { name: 'Traffic', icon: <ActivityIcon />, link: { to: '/h/$hosterId/traffic', params } },
    { name: 'Trust', icon: <CheckIcon />, link: { to: '/h/$hosterId/trust', params } },
    ...(seesEarnings
      ? [{ name: 'Earnings', icon: <CreditIcon />, link: { to: '/h/$hosterId/earnings', params } } as const]
      : []),
    { name: 'Connect', icon: <ServerIcon />, link: { to: '/h/$hosterId/connect', params } },
    { name: 'Settings', icon: <SettingsIcon />, link: { to: '/h/$hosterId/settings', params } },
  ]
  return (
    <Shell
      items={items}
      top={seesEarnings && <TopPayable hosterId={hosterId} />}
      notice={
        role === null && 'You look at this hoster as an operator. You can read everything and change nothing here.'
      }
    />
  )
}

function TopPayable({ hosterId }: { hosterId: string }) {
  const { data } = useQuery(earningsQuery(hosterId, lastDays(1)))
  return (
    <Link to="/h/$hosterId/earnings" params={{ hosterId }} className={styles.topBalance}>
      Payable <b>{data === undefined ? '…' : <Balance usd={data.payable_usd} />}</b> USD
    </Link>
  )
}
