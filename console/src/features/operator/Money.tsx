import { t } from '@lingui/core/macro'
import { Plural, Trans } from '@lingui/react/macro'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { OperatorMoney } from '#api/operator/money.ts'
import { moneyQuery } from '../../api/operator-queries.ts'
import { countText, durationText } from '../../format/number-text.ts'
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
    <Page title={t`Money`}>
      <Loaded query={money} height={640}>
        {data => (
          <>
            <Tiles>
              <Tile label={t`Balances of customers`} figure={`${roundUsd(data.customer_credit_usd)} USD`}>
                <span className={styles.hint}>
                  <Trans>{roundUsd(data.held_usd)} USD held for running requests</Trans>
                </span>
              </Tile>
              <Tile label={t`Payable to hosters`} figure={`${roundUsd(data.payable_usd)} USD`}>
                <Link to="/operator/payouts">{t`Payouts`}</Link>
              </Tile>
              <Tile label={t`Revenue in all`} figure={`${roundUsd(data.total.revenue_usd)} USD`}>
                <span className={styles.hint}>
                  <Trans>of {roundUsd(data.total.charged_usd)} USD charged</Trans>
                </span>
              </Tile>
              <Tile label={t`Measured but not charged`} figure={`${roundUsd(data.total.written_off_usd)} USD`}>
                <span className={styles.hint}>
                  <Trans>{roundUsd(data.total.refunded_usd)} USD refunded</Trans>
                </span>
              </Tile>
            </Tiles>
            <Panel title={t`Books`} aside={<AuditState audit={data.last_audit} />}>
              <Books money={data} />
            </Panel>
            <Payments />
            <Vouchers />
            <Panel
              title={t`By day (UTC)`}
              aside={<span className={styles.hint}>{t`Days with a change of the last 90`}</span>}
            >
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
        [t`Last audit`]:
          audit === null ? (
            t`The first audit runs within minutes of the first start.`
          ) : (
            <>
              <When at={audit.at} form="distance" />
              {t`, in ${durationText(audit.elapsed_ms)}`}
            </>
          ),
        [t`Grants`]:
          waiting === 0 ? (
            t`none waiting`
          ) : (
            <Link to="/operator/grants">
              <Trans>
                <Plural value={waiting} one="# grant waits" other="# grants wait" /> for a second operator
              </Trans>
            </Link>
          ),
        [t`Granted in all`]: t`${roundUsd(total.granted_usd)} USD, and ${roundUsd(total.signup_credit_usd)} USD at sign-up`,
        [t`Alerts of 7 days`]:
          deliveries.failed === 0 ? (
            <State state="ok">{t`all delivered`}</State>
          ) : (
            <State state="warn">{t`${countText(deliveries.failed)} not delivered`}</State>
          ),
        [t`Sums as of`]: money.summed_at === null ? null : <When at={money.summed_at} />,
      }}
    />
  )
}

function Days({ days }: { days: OperatorMoney['days'] }) {
  if (days.length === 0)
    return <EmptyState text={t`No money has moved yet. The first request appears here in a minute.`} />
  return (
    <DataTable
      label={t`Money by day`}
      rows={days}
      keyOf={({ day }) => day}
      columns={[
        {
          title: t`Day`,
          place: 'name',
          cell: ({ day }) => (
            <Link to="/operator/usage" search={{ from: day, until: day }}>
              {utcDayText(day)}
            </Link>
          ),
          sortBy: ({ day }) => day,
        },
        {
          title: t`Charged`,
          align: 'right',
          cell: each => <Amount usd={each.charged_usd} />,
          sortBy: each => each.charged_usd,
        },
        {
          title: t`Hosters`,
          align: 'right',
          cell: each => <Amount usd={each.hoster_share_usd} />,
          sortBy: each => each.hoster_share_usd,
        },
        {
          title: t`Granted`,
          align: 'right',
          cell: each => <Amount usd={each.granted_usd} />,
          sortBy: each => each.granted_usd,
        },
        {
          title: t`Sign-up`,
          align: 'right',
          cell: each => <Amount usd={each.signup_credit_usd} />,
          sortBy: each => each.signup_credit_usd,
        },
        {
          title: t`Refunded`,
          align: 'right',
          cell: each => <Amount usd={each.refunded_usd} />,
          sortBy: each => each.refunded_usd,
        },
        {
          title: t`Not charged`,
          align: 'right',
          cell: each => <Amount usd={each.written_off_usd} />,
          sortBy: each => each.written_off_usd,
        },
        {
          title: t`Revenue`,
          align: 'right',
          place: 'figure',
          cell: each => <Amount usd={each.revenue_usd} />,
          sortBy: each => each.revenue_usd,
        },
      ]}
    />
  )
}
