import { t } from '@lingui/core/macro'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { earningsQuery, hosterMembershipsQuery, lastDays } from '../api/hoster-queries.ts'
import { Loaded } from '../parts/Loaded.tsx'
import { Balance } from '../parts/Money.tsx'
import { TopAmount } from './Frame.tsx'
import { NotFound } from './NotFound.tsx'
import { hosterItems } from './nav-items.tsx'
import { HosterVisit } from './on-demand.ts'
import { Shell } from './Shell.tsx'
import { SignedInOnly } from './SignedInOnly.tsx'
import styles from './shell.module.css'
import { useHosterId, useHosterRights } from './use-hoster.ts'
import { useOldData } from './use-old-data.ts'
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
  const items = seesEarnings ? hosterItems : hosterItems.filter(({ to }) => to !== '/h/$hosterId/earnings')
  return (
    <Shell
      items={items}
      top={seesEarnings && <TopPayable hosterId={hosterId} />}
      notice={role === null && <HosterVisit hosterId={hosterId} />}
    />
  )
}

function TopPayable({ hosterId }: { hosterId: string }) {
  const { data } = useQuery(earningsQuery(hosterId, lastDays(1)))
  return (
    <Link to="/h/$hosterId/earnings" params={{ hosterId }} className={styles.topBalance}>
      <TopAmount name={useOldData() === null ? t`Payable` : t`Last known payable`}>
        {data === undefined ? '…' : <Balance usd={data.payable_usd} />}
      </TopAmount>
    </Link>
  )
}
