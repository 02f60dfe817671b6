import { Button } from '@mantine/core'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { activityQuery, creditsQuery, tokensQuery, usageQuery } from '../../api/queries.ts'
import { Sparkline } from '../../charts/Sparkline.tsx'
import { countText, durationText, plural, shareText } from '../../format/number-text.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { Loaded } from '../../parts/Loaded.tsx'
import { Meter } from '../../parts/Meter.tsx'
import { Balance } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { RequestTable } from '../../parts/RequestTable.tsx'
import { Tile, Tiles } from '../../parts/Tile.tsx'
import { useKeys } from '../../shell/use-keys.ts'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import { FirstSteps } from './FirstSteps.tsx'
import styles from './home.module.css'
import { paceText } from './pace.ts'

/** Balance, pace, limits and the last requests; for a new customer, the first request. */
export function Home() {
  const customerId = useCustomerId()
  const params = { customerId }
  const usage = useQuery(usageQuery(customerId))
  const credits = useQuery(creditsQuery(customerId))
  const month = useQuery(tokensQuery(customerId, 30, 'day'))
  const keys = useKeys()
  const recent = useInfiniteQuery(activityQuery(customerId, {}, 5))
  const { mayCredits, mayKeys } = useRights()
  const rows = recent.data?.pages[0]?.data
  const isNew = rows?.length === 0
  return (
    <Page title="Home">
      <Loaded query={credits} height={64}>
        {({ balance_usd, held_usd }) => (
          <section className={styles.balance}>
            <div>
              <p className={styles.balanceLabel}>Balance</p>
              <p className={styles.balanceFigure}>
                <Balance usd={balance_usd} /> USD
              </p>
              <p className={styles.hint}>
                {paceText(balance_usd, month.data)}
                {held_usd > 0 && ` · ${roundUsd(held_usd)} USD held for running requests`}
              </p>
            </div>
            {mayCredits && (
              <Button
                variant="default"
                renderRoot={props => <Link {...props} to="/c/$customerId/credits" params={params} />}
              >
                Add credit
              </Button>
            )}
          </section>
        )}
      </Loaded>
      {isNew && <FirstSteps customerId={customerId} hasKey={(keys.data?.data.length ?? 0) > 0} mayKeys={mayKeys} />}
      {!isNew && (
        <>
          <Loaded query={month} height={104}>
            {({ timeseries, totals }) => (
              <Tiles>
                <Tile label="Today, UTC" figure={`${roundUsd(timeseries.at(-1)?.cost_usd ?? 0)} USD`}>
                  <span className={styles.hint}>{plural(timeseries.at(-1)?.requests ?? 0, 'request')}</span>
                </Tile>
                <Tile label="30 days" figure={`${roundUsd(totals.cost_usd)} USD`}>
                  <Sparkline values={timeseries.map(({ cost_usd }) => cost_usd)} />
                </Tile>
                <Tile label="Requests in 30 days" figure={countText(totals.requests)}>
                  <Sparkline values={timeseries.map(({ requests }) => requests)} />
                </Tile>
                <Tile label="Mean time of an answer" figure={durationText(usage.data?.usage_30d.avg_latency_ms ?? 0)}>
                  <span className={styles.hint}>{failedText(timeseries)}</span>
                </Tile>
              </Tiles>
            )}
          </Loaded>
          <Loaded query={usage} height={88}>
            {({ rate_limits: limits }) => (
              <Panel title="Limits">
                <div className={styles.meters}>
                  <Meter
                    label="This minute"
                    used={limits.requests_this_minute}
                    limit={limits.limit_per_minute}
                    text={`${countText(limits.requests_this_minute)} of ${countText(limits.limit_per_minute)} requests`}
                  />
                  <Meter
                    label="Today"
                    used={limits.requests_today}
                    limit={limits.limit_per_day}
                    text={`${countText(limits.requests_today)} of ${countText(limits.limit_per_day)} requests`}
                  />
                </div>
              </Panel>
            )}
          </Loaded>
          <Panel
            title="Last requests"
            aside={
              <Link to="/c/$customerId/activity" params={params}>
                All requests
              </Link>
            }
          >
            <Loaded query={recent} height={216}>
              {({ pages }) => <RequestTable customerId={customerId} rows={pages[0]!.data} />}
            </Loaded>
          </Panel>
          <FirstSteps customerId={customerId} hasKey isFolded mayKeys={mayKeys} />
        </>
      )}
    </Page>
  )
}

interface Counted {
  readonly requests: number
  readonly local_requests: number
  readonly hoster_requests: number
  readonly cloud_requests: number
}

/** Requests that no server could serve are in none of the three counts by kind of server. */
function failedText(buckets: readonly Counted[]): string {
  const all = buckets.reduce((sum, { requests }) => sum + requests, 0)
  const served = buckets.reduce(
    (sum, each) => sum + each.local_requests + each.hoster_requests + each.cloud_requests,
    0,
  )
  return all === 0 ? 'no request yet' : `${shareText((all - served) / all)} not served`
}
