import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { OperatorMoney } from '#api/operator/money.ts'
import { moneyQuery } from '../../api/operator-queries.ts'
import { countText, durationText, plural } from '../../format/number-text.ts'
import { utcDayText } from '../../format/time-text.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Amount } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { Tile, Tiles } from '../../parts/Tile.tsx'
import { When } from '../../parts/When.tsx'
import { AuditState } from './AuditState.tsx'
import styles from './operator.module.css'
import { Payments } from './Payments.tsx'
import { Vouchers } from './Vouchers.tsx'

/** The books: what customers have, what hosters have earned, what nobody pays, and whether everything agrees. */
export function Money() {
  const money = useQuery(moneyQuery)
  return (
    <Page title="Money">
      <Loaded query={money} height={640}>
        {data => (
          <>
            <Tiles>
              <Tile label="Balances of customers" figure={`${roundUsd(data.customer_credit_usd)} USD`}>
                <span className={styles.hint}>{roundUsd(data.held_usd)} USD held for running requests</span>
              </Tile>
              <Tile label="Payable to hosters" figure={`${roundUsd(data.payable_usd)} USD`}>
                <Link to="/operator/payouts">Payouts</Link>
              </Tile>
              <Tile label="Revenue in all" figure={`${roundUsd(data.total.revenue_usd)} USD`}>
                <span className={styles.hint}>of {roundUsd(data.total.charged_usd)} USD charged</span>
              </Tile>
              <Tile label="Measured but not charged" figure={`${roundUsd(data.total.written_off_usd)} USD`}>
                <span className={styles.hint}>{roundUsd(data.total.refunded_usd)} USD refunded</span>
              </Tile>
            </Tiles>
            <Panel title="Books" aside={<AuditState audit={data.last_audit} />}>
              <Books money={data} />
            </Panel>
            <Payments />
            <Vouchers />
            <Panel title="By day (UTC)" aside={<span className={styles.hint}>Days with a change of the last 90</span>}>
              <Days days={data.days} />
            </Panel>
          </>
        )}
      </Loaded>
    </Page>
  )
}

function Books({ money }: { money: OperatorMoney }) {
  const { last_audit: audit, total, waiting_grants: waiting, alert_deliveries: deliveries } = money
  return (
    <Facts
      facts={{
        'Last audit':
          audit === null ? (
            'The first audit runs within minutes of the first start.'
          ) : (
            <>
              <When at={audit.at} form="distance" />
              {`, in ${durationText(audit.elapsed_ms)}`}
            </>
          ),
        Grants:
          waiting === 0 ? (
            'none waiting'
          ) : (
            <Link to="/operator/grants">{plural(waiting, 'grant waits', 'grants wait')} for a second operator</Link>
          ),
        'Granted in all': `${roundUsd(total.granted_usd)} USD, and ${roundUsd(total.signup_credit_usd)} USD at sign-up`,
        'Alerts of 7 days':
          deliveries.failed === 0 ? (
            <State state="ok">all delivered</State>
          ) : (
            <State state="warn">{`${countText(deliveries.failed)} not delivered`}</State>
          ),
        'Sums as of': money.summed_at === null ? null : <When at={money.summed_at} />,
      }}
    />
  )
}

function Days({ days }: { days: OperatorMoney['days'] }) {
  if (days.length === 0)
    return <EmptyState text="No money has moved yet. The first request appears here in a minute." />
  return (
    <DataTable
      label="Money by day"
      rows={days}
      keyOf={({ day }) => day}
      columns={[
        {
          title: 'Day',
          place: 'name',
          cell: ({ day }) => (
            <Link to="/operator/usage" search={{ from: day, until: day }}>
              {utcDayText(day)}
            </Link>
          ),
          sortBy: ({ day }) => day,
        },
        {
          title: 'Charged',
          align: 'right',
          isLabelled: true,
          cell: each => <Amount usd={each.charged_usd} />,
          sortBy: each => each.charged_usd,
        },
        {
          title: 'Hosters',
          align: 'right',
          isLabelled: true,
          cell: each => <Amount usd={each.hoster_share_usd} />,
          sortBy: each => each.hoster_share_usd,
        },
        {
          title: 'Granted',
          align: 'right',
          isLabelled: true,
          cell: each => <Amount usd={each.granted_usd} />,
          sortBy: each => each.granted_usd,
        },
        {
          title: 'Sign-up',
          align: 'right',
          isLabelled: true,
          cell: each => <Amount usd={each.signup_credit_usd} />,
          sortBy: each => each.signup_credit_usd,
        },
        {
          title: 'Refunded',
          align: 'right',
          isLabelled: true,
          cell: each => <Amount usd={each.refunded_usd} />,
          sortBy: each => each.refunded_usd,
        },
        {
          title: 'Not charged',
          align: 'right',
          isLabelled: true,
          cell: each => <Amount usd={each.written_off_usd} />,
          sortBy: each => each.written_off_usd,
        },
        {
          title: 'Revenue',
          align: 'right',
          place: 'figure',
          isLabelled: true,
          cell: each => <Amount usd={each.revenue_usd} />,
          sortBy: each => each.revenue_usd,
        },
      ]}
    />
  )
}
