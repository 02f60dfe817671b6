import { plural, t } from '@lingui/core/macro'
import { Plural } from '@lingui/react/macro'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { LatencyReport } from '#api/console-data.ts'
import { activityQuery, creditsQuery, latencyQuery, limitsQuery, tokensQuery } from '../../api/queries.ts'
import { Sparkline } from '../../charts/Sparkline.tsx'
import { countText, durationText, shareText } from '../../format/number-text.ts'
import { minuteText } from '../../format/time-text.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { Loaded } from '../../parts/Loaded.tsx'
import { Meter, windowText } from '../../parts/Meter.tsx'
import { Balance } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { RequestTable } from '../../parts/RequestTable.tsx'
import { Tile, Tiles } from '../../parts/Tile.tsx'
import { AddCreditLink } from '../../shell/AddCreditLink.tsx'
import { useKeyNames } from '../../shell/use-key-names.ts'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import { FirstSteps } from './FirstSteps.tsx'
import styles from './home.module.css'
import { NextSteps } from './NextSteps.tsx'
import { paceText } from './pace.ts'

/** Balance, pace, limits and the last requests; for a new customer, the first request. */
export function Home() {
  const customerId = useCustomerId()
  const params = { customerId }
  const limits = useQuery(limitsQuery(customerId))
  const latency = useQuery(latencyQuery(customerId))
  const credits = useQuery(creditsQuery(customerId))
  const month = useQuery(tokensQuery(customerId, 30, 'day'))
  const keys = useKeyNames()
  const recent = useInfiniteQuery(activityQuery(customerId, {}, 5))
  const { mayCredits, mayKeys } = useRights()
  const rows = recent.data?.pages[0]?.data
  const isNew = rows?.length === 0
  const hasUnlisted = isNew && (limits.data?.day.used ?? 0) > 0
  return (
    <Page title={t`Home`}>
      <Loaded query={credits} height={64}>
        {({ balance_usd, held_usd }) => (
          <section className={styles.balance}>
            <div>
              <p className={styles.balanceLabel}>{t`Balance`}</p>
              <p className={styles.balanceFigure}>
                <Balance usd={balance_usd} /> USD
              </p>
              <p className={styles.hint}>
                {paceText(balance_usd, month.data)}
                {held_usd > 0 && t` · ${roundUsd(held_usd)} USD held for running requests`}
              </p>
            </div>
            {mayCredits && <AddCreditLink customerId={customerId} />}
          </section>
        )}
      </Loaded>
      {hasUnlisted && (
        <p role="status">
          {t`The gateway has counted a request today, but none has been answered yet. If yours got an error, that says why: refused requests cost nothing, are in no list, and count in the limits.`}
        </p>
      )}
      {isNew && (
        <FirstSteps
          customerId={customerId}
          hasKey={keys.data?.data.some(({ is_playground }) => !is_playground) === true}
          mayKeys={mayKeys}
        />
      )}
      {isNew && <NextSteps customerId={customerId} hasRequest={false} />}
      {!isNew && (
        <>
          {rows !== undefined && <NextSteps customerId={customerId} hasRequest />}
          <Loaded query={month} height={104}>
            {({ timeseries, totals }) => (
              <Tiles>
                <Tile label={t`Today, UTC`} figure={`${roundUsd(timeseries.at(-1)?.cost_usd ?? 0)} USD`}>
                  <span className={styles.hint}>
                    <Plural value={timeseries.at(-1)?.requests ?? 0} one="# request" other="# requests" />
                  </span>
                </Tile>
                <Tile label={t`30 days`} figure={`${roundUsd(totals.cost_usd)} USD`}>
                  <Sparkline values={timeseries.map(({ cost_usd }) => cost_usd)} />
                </Tile>
                <Tile label={t`Requests in 30 days`} figure={countText(totals.requests)}>
                  <Sparkline values={timeseries.map(({ requests }) => requests)} />
                </Tile>
                <Tile label={t`First token`} figure={firstTokenText(latency.data)}>
                  <span className={styles.hint}>{slowText(latency.data)}</span>
                  <span className={styles.hint}>{failureText(latency.data)}</span>
                </Tile>
              </Tiles>
            )}
          </Loaded>
          <Loaded query={limits} height={88}>
            {({ minute, day, spend, member }) => (
              <Panel title={t`Limits`}>
                <div className={styles.meters}>
                  <Meter
                    label={t`This minute`}
                    used={minute.used}
                    limit={minute.limit}
                    text={t`${countText(minute.used)} of ${countText(minute.limit)} requests`}
                  />
                  <Meter
                    label={t`Today`}
                    used={day.used}
                    limit={day.limit}
                    text={t`${countText(day.used)} of ${countText(day.limit)} requests`}
                  />
                  <Meter
                    label={t`Spend until ${minuteText(new Date(spend.resets_at))}`}
                    used={spend.spent_usd}
                    limit={spend.limit_usd}
                    text={t`${roundUsd(spend.spent_usd)} of ${roundUsd(spend.limit_usd)} USD`}
                  />
                  {member !== null && (
                    <Meter
                      label={t`Yours ${windowText[member.limit_reset]}`}
                      used={member.spent_usd}
                      limit={member.limit_usd}
                      text={t`${roundUsd(member.spent_usd)} of ${roundUsd(member.limit_usd)} USD`}
                    />
                  )}
                </div>
                {day.used > (month.data?.timeseries.at(-1)?.requests ?? day.used) && (
                  <p className={styles.hint}>
                    {t`Requests that were refused count here too. They cost nothing, and are in no list.`}
                  </p>
                )}
              </Panel>
            )}
          </Loaded>
          <Panel
            title={t`Last requests`}
            aside={<Link to="/c/$customerId/activity" params={params}>{t`All requests`}</Link>}
          >
            <Loaded query={recent} height={216}>
              {({ pages }) => <RequestTable customerId={customerId} rows={pages[0]!.data} hasMore />}
            </Loaded>
          </Panel>
          <FirstSteps customerId={customerId} hasKey isFolded mayKeys={mayKeys} />
        </>
      )}
    </Page>
  )
}

function firstTokenText(latency: LatencyReport | undefined): string {
  const { p50 } = latency?.first_token_ms ?? {}
  if (p50 === undefined) return '–'
  return durationText(p50)
}

function slowText(latency: LatencyReport | undefined): string {
  const { p95 } = latency?.first_token_ms ?? {}
  return p95 === undefined ? '' : t`95 % within ${durationText(p95)}`
}

function failureText(latency: LatencyReport | undefined): string {
  if (latency === undefined || latency.requests === 0) return t`no request yet`
  return t`${shareText(latency.failure_share)} of the last ${plural(latency.requests, { one: '# request', other: '# requests' })} failed`
}
