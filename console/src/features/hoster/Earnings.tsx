import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Earnings as EarningsShown } from '#api/earnings.ts'
import { earningsQuery, hosterPayoutsQuery, lastDays } from '../../api/hoster-queries.ts'
import { countText } from '../../format/number-text.ts'
import { payoutWord } from '../../format/payout-words.ts'
import { utcDayText } from '../../format/time-text.ts'
import { chargeText, signedUsd, sumUsd } from '../../format/usd-text.ts'
import { CsvExport } from '../../parts/CsvExport.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Amount, Balance } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { payoutMarks } from '../../parts/payout-marks.ts'
import { State } from '../../parts/State.tsx'
import { Tile, Tiles } from '../../parts/Tile.tsx'
import { When } from '../../parts/When.tsx'
import { useHosterId, useHosterRights } from '../../shell/use-hoster.ts'
import { codeText, saidText } from '../../texts/code-text.ts'
import { DayChoice, useDays } from './DayChoice.tsx'
import styles from './hoster.module.css'
import { PayoutAccount } from './PayoutAccount.tsx'

/** What a hoster earned by day and model, what is payable, and its payouts. */
export function Earnings() {
  const hosterId = useHosterId()
  const { seesEarnings } = useHosterRights()
  const span = lastDays(useDays())
  const earnings = useQuery({ ...earningsQuery(hosterId, span), enabled: seesEarnings })
  if (!seesEarnings) {
    return (
      <Page title={t`Earnings`}>
        <Panel>
          <EmptyState
            text={t`Only owners and the role billing see earnings. Ask an owner of this hoster for that role.`}
          />
        </Panel>
      </Page>
    )
  }
  return (
    <Page title={t`Earnings`} actions={<DayChoice />}>
      <Loaded query={earnings} height={560}>
        {data => (
          <>
            <Funds earnings={data} />
            <PayoutAccount hosterId={hosterId} payable={data} />
            <Statement earnings={data} hosterId={hosterId} />
            {data.movements.length > 0 && <Movements earnings={data} />}
          </>
        )}
      </Loaded>
      <Payouts hosterId={hosterId} />
    </Page>
  )
}

function Funds({ earnings }: { earnings: EarningsShown }) {
  const { lines, held_until: heldUntil, promotion } = earnings
  const earned = sumUsd(lines.flatMap(line => [line.share_usd, -line.refunded_share_usd]))
  return (
    <>
      {earnings.frozen_reason !== null && (
        <Panel>
          <p className={styles.notice}>
            <Trans>Payouts are frozen: {saidText(earnings.frozen_reason, earnings.frozen_reason_codes)}</Trans>
          </p>
        </Panel>
      )}
      <Tiles>
        <Tile label={t`Balance`} figure={<Usd usd={earnings.balance_usd} />}>
          {earnings.balance_usd < 0 && <span className={styles.hint}>{t`Later earnings pay it first`}</span>}
        </Tile>
        <Tile label={t`Payable`} figure={<Usd usd={earnings.payable_usd} />} />
        <Tile label={t`Held`} figure={<Usd usd={earnings.held_usd} />}>
          {heldUntil !== null && (
            <span className={styles.hint}>
              <Trans>until {utcDayText(heldUntil)}</Trans>
            </span>
          )}
        </Tile>
        {promotion.share_usd > 0 && (
          <Tile label={t`From promotion credit`} figure={<Usd usd={promotion.share_usd} />}>
            <span className={styles.hint}>
              <Trans>
                at most {chargeText(promotion.day_budget_usd)} USD a day is paid
                {promotion.held_until !== null && t`, by ${utcDayText(promotion.held_until)}`}
              </Trans>
            </span>
          </Tile>
        )}
        <Tile label={t`Earned on these days`} figure={<Usd usd={earned} />} />
      </Tiles>
    </>
  )
}

function Usd({ usd }: { usd: number }) {
  return (
    <>
      <Balance usd={usd} /> USD
    </>
  )
}

function Statement({ earnings, hosterId }: { earnings: EarningsShown; hosterId: string }) {
  const { lines, from, until } = earnings
  return (
    <Panel
      title={t`Statement`}
      aside={
        <CsvExport
          path={`hosters/${hosterId}/earnings/export?from=${from}&until=${until}`}
          rows={lines.length}
          what={t`the statement`}
        />
      }
    >
      {lines.length === 0 ? (
        <EmptyState
          text={t`Nothing was earned on these days. The first answered request appears here when you open the page again.`}
        >
          <Link to="/h/$hosterId" params={{ hosterId }}>{t`See what is missing`}</Link>
        </EmptyState>
      ) : (
        <DataTable
          label={t`Statement`}
          rows={lines.toReversed()}
          keyOf={({ day, model }) => `${day} ${model}`}
          columns={[
            { title: t`Day (UTC)`, cell: ({ day }) => utcDayText(day), sortBy: ({ day }) => day },
            { title: t`Model`, place: 'name', cell: ({ model }) => model, sortBy: ({ model }) => model },
            {
              title: t`Requests`,
              align: 'right',
              cell: ({ requests }) => countText(requests),
              sortBy: ({ requests }) => requests,
            },
            {
              title: t`Tokens in / out`,
              align: 'right',
              cell: each => `${countText(each.input_tokens)} / ${countText(each.output_tokens)}`,
              sortBy: each => each.input_tokens + each.output_tokens,
            },
            {
              title: t`Charged`,
              align: 'right',
              cell: ({ gross_usd }) => <Amount usd={gross_usd} />,
              sortBy: ({ gross_usd }) => gross_usd,
            },
            {
              title: t`Refunded`,
              align: 'right',
              cell: each => <Amount usd={each.refunded_share_usd} />,
              sortBy: ({ refunded_share_usd }) => refunded_share_usd,
            },
            {
              title: t`Earned`,
              align: 'right',
              place: 'figure',
              cell: each => <Amount usd={sumUsd([each.share_usd, -each.refunded_share_usd])} />,
              sortBy: each => each.share_usd - each.refunded_share_usd,
            },
          ]}
        />
      )}
    </Panel>
  )
}

const movementTexts = {
  payout: t`payout`,
  payout_returned: t`payout came back`,
  earnings_moved: t`moved to the balance of your customer`,
  clawback: t`taken back`,
  clawback_returned: t`given back`,
  promotion_excess: t`promotion credit beyond the budget`,
  opening_balance: t`opening balance`,
} as const

function Movements({ earnings }: { earnings: EarningsShown }) {
  return (
    <Panel title={t`Other movements`}>
      <DataTable
        label={t`Other movements`}
        rows={earnings.movements.toReversed()}
        keyOf={({ at, kind, amount_usd }) => `${at} ${kind} ${amount_usd}`}
        columns={[
          { title: t`Time`, cell: ({ at }) => <When at={at} />, sortBy: ({ at }) => at },
          { title: t`What`, place: 'name', cell: ({ kind }) => movementTexts[kind], sortBy: ({ kind }) => kind },
          { title: t`Reason`, cell: ({ reason }) => reason },
          {
            title: 'USD',
            align: 'right',
            place: 'figure',
            cell: ({ amount_usd }) => signedUsd(amount_usd),
            sortBy: ({ amount_usd }) => amount_usd,
          },
        ]}
      />
    </Panel>
  )
}

function Payouts({ hosterId }: { hosterId: string }) {
  const payouts = useInfiniteQuery(hosterPayoutsQuery(hosterId))
  return (
    <Panel title={t`Payouts`}>
      <Loaded query={payouts} height={80}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data)
          if (rows.length === 0) return <EmptyState text={t`Nothing was paid out yet.`} />
          return (
            <>
              <DataTable
                label={t`Payouts`}
                hasMore={payouts.hasNextPage}
                rows={rows}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: t`Made`,
                    cell: ({ created_at }) => <When at={created_at} />,
                    sortBy: ({ created_at }) => created_at,
                  },
                  {
                    title: t`Reference`,
                    place: 'name',
                    cell: ({ reference }) => <code>{reference}</code>,
                    sortBy: ({ reference }) => reference,
                  },
                  { title: t`To`, cell: ({ driver, account }) => `${payoutWord(driver, 'bank')} ${account}` },
                  {
                    title: t`State`,
                    cell: ({ state, failure }) => (
                      <>
                        <State state={payoutMarks[state]}>{codeText(state)}</State>
                        {failure !== null && ` ${failure}`}
                      </>
                    ),
                    sortBy: ({ state }) => state,
                  },
                  {
                    title: t`Ended`,
                    cell: ({ ended_at: at }) => (at === null ? t`not yet` : <When at={at} />),
                    sortBy: ({ ended_at }) => ended_at,
                  },
                  {
                    title: 'USD',
                    align: 'right',
                    place: 'figure',
                    cell: ({ amount_usd }) => chargeText(amount_usd),
                    sortBy: ({ amount_usd }) => amount_usd,
                  },
                ]}
              />
              {payouts.hasNextPage && (
                <Button
                  variant="default"
                  loading={payouts.isFetchingNextPage}
                  onClick={() => void payouts.fetchNextPage()}
                >{t`Show older payouts`}</Button>
              )}
            </>
          )
        }}
      </Loaded>
    </Panel>
  )
}
