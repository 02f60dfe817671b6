import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { customersQuery, operatorUsageQuery } from '../../api/operator-queries.ts'
import { StackedBars } from '../../charts/StackedBars.tsx'
import { countText, shareText } from '../../format/number-text.ts'
import { utcDayText } from '../../format/time-text.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Amount, Charge } from '../../parts/Money.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { When } from '../../parts/When.tsx'
import styles from './operator.module.css'
import { usageBuckets } from './usage-buckets.ts'

const LISTED = 5

/** Revenue, margin and errors of the last 30 days, and the customers behind them. */
export function Sales() {
  const usage = useQuery(operatorUsageQuery({ by: 'customer' }))
  const customers = useInfiniteQuery(customersQuery({}))
  return (
    <>
      <Panel title="Last 30 days" aside={<Link to="/operator/usage">Usage</Link>}>
        <Loaded query={usage} height={280}>
          {data => {
            const { total } = data
            return (
              <>
                <p className={styles.hint}>
                  {roundUsd(total.charged_usd)} USD charged · {roundUsd(total.revenue_usd ?? 0)} USD revenue ·{' '}
                  {roundUsd(total.margin_usd ?? 0)} USD margin · {countText(total.requests)} requests
                  {total.requests > 0 && ` · ${shareText((total.failed ?? 0) / total.requests)} failed`}
                </p>
                <StackedBars
                  label="USD charged"
                  series={[{ name: 'charged', color: 'var(--link)' }]}
                  bars={usageBuckets(data).map(({ from, chargedUsd, isOpen }) => ({
                    label: utcDayText(from),
                    values: [chargedUsd],
                    ...(isOpen && { isOpen: true }),
                  }))}
                  text={roundUsd}
                />
              </>
            )
          }}
        </Loaded>
      </Panel>
      <Panel
        title="Top customers"
        aside={
          <Link to="/operator/usage" search={{ by: 'customer' }}>
            All
          </Link>
        }
      >
        <Loaded query={usage} height={160}>
          {({ groups }) => (
            <DataTable
              label="Top customers"
              rows={groups.slice(0, LISTED)}
              keyOf={({ id }) => id}
              columns={[
                {
                  title: 'Customer',
                  place: 'name',
                  cell: ({ id, name }) => (
                    <Link to="/operator/customers/$customerId" params={{ customerId: id }}>
                      {name}
                    </Link>
                  ),
                },
                { title: 'Requests', align: 'right', isLabelled: true, cell: ({ requests }) => countText(requests) },
                {
                  title: 'Margin',
                  align: 'right',
                  isLabelled: true,
                  cell: ({ margin_usd: usd }) => (usd === null ? '–' : <Amount usd={usd} />),
                },
                { title: 'USD', align: 'right', place: 'figure', cell: each => <Charge usd={each.charged_usd} /> },
              ]}
            />
          )}
        </Loaded>
      </Panel>
      <Panel title="New customers" aside={<Link to="/operator/customers">All</Link>}>
        <Loaded query={customers} height={160}>
          {({ pages }) => (
            <DataTable
              label="New customers"
              rows={pages.flatMap(({ data }) => data).slice(0, LISTED)}
              keyOf={({ id }) => id}
              columns={[
                {
                  title: 'Customer',
                  place: 'name',
                  cell: ({ id, email }) => (
                    <Link to="/operator/customers/$customerId" params={{ customerId: id }}>
                      {email ?? id.slice(0, 8)}
                    </Link>
                  ),
                },
                { title: 'Since', cell: ({ created_at }) => <When at={created_at} form="distance" /> },
                {
                  title: 'USD in 30 days',
                  align: 'right',
                  place: 'figure',
                  cell: each => <Charge usd={each.spent_30d_usd} />,
                },
              ]}
            />
          )}
        </Loaded>
      </Panel>
    </>
  )
}
