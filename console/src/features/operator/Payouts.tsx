import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { PreparedBatchShown } from '#api/operator/payouts.ts'
import { type PayoutDriverName, payoutProviderNames } from '../../../../src/base/domain/money-drivers.ts'
import { hosterFundsQuery, payoutBatchesQuery, promotionReviewsQuery } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { countText } from '../../format/number-text.ts'
import { payoutWord } from '../../format/payout-words.ts'
import { utcDayText } from '../../format/time-text.ts'
import { chargeText } from '../../format/usd-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Balance } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { batchMarks } from '../../parts/payout-marks.ts'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { codeText, saidText } from '../../texts/code-text.ts'
import styles from './operator.module.css'
import { PromotionReviews } from './PromotionReviews.tsx'
import { useMayOperate } from './use-may-operate.ts'

const resultTexts = {
  prepared: t`in the batch`,
  below_minimum: t`below the minimum`,
  frozen: t`frozen`,
  no_account: t`has no payout account`,
  account_not_ready: t`its account is not ready`,
  other_driver: t`is paid in another way`,
} as const

/** What hosters have, and the batches that pay them. */
export function Payouts() {
  const mayOperate = useMayOperate()
  const navigate = useNavigate()
  const [left, setLeft] = useState<PreparedBatchShown['hosters']>([])
  const prepare = useWrite<PayoutDriverName, PreparedBatchShown>(
    driver => ({ method: 'POST', path: 'operator/payouts', body: { driver } }),
    {
      areas: ['payouts', 'money'],
      done: ({ batch }) =>
        batch === null ? t`There is nothing to pay.` : t`The batch is prepared. Nothing was sent yet.`,
      onDone({ batch, hosters }) {
        setLeft(hosters.filter(({ result }) => result !== 'prepared'))
        if (batch !== null) void navigate({ to: '/operator/payouts/$batchId', params: { batchId: batch.id } })
      },
    },
  )
  return (
    <Page
      title={t`Payouts`}
      actions={
        mayOperate && (
          <>
            <Button
              loading={prepare.isPending}
              onClick={() => prepare.mutate('csv')}
            >{t`Prepare bank transfers`}</Button>
            {payoutProviderNames.map(name => (
              <Button key={name} variant="default" loading={prepare.isPending} onClick={() => prepare.mutate(name)}>
                <Trans>Prepare by {payoutWord(name, '')}</Trans>
              </Button>
            ))}
          </>
        )
      }
    >
      {left.length > 0 && (
        <Panel title={t`Not paid`}>
          <DataTable
            label={t`Not paid`}
            rows={left}
            keyOf={({ hoster_id }) => hoster_id}
            columns={[
              { title: t`Hoster`, place: 'name', cell: ({ hoster }) => hoster, sortBy: ({ hoster }) => hoster },
              { title: t`Why`, cell: ({ result }) => resultTexts[result], sortBy: ({ result }) => resultTexts[result] },
              {
                title: t`Payable`,
                align: 'right',
                place: 'figure',
                cell: ({ payable_usd }) => <Balance usd={payable_usd} />,
                sortBy: ({ payable_usd }) => payable_usd,
              },
            ]}
          />
        </Panel>
      )}
      <Reviews />
      <Batches />
      <Funds />
    </Page>
  )
}

/** A review waits before any batch has its hoster, for example while that has less than the minimum. */
function Reviews() {
  const reviews = useQuery(promotionReviewsQuery)
  // Most installations have none, so there is no place to keep free.
  if (reviews.isPending) return null
  return (
    <Loaded query={reviews} height={0}>
      {({ data }) => <PromotionReviews reviews={data.filter(({ state }) => state === 'waiting')} />}
    </Loaded>
  )
}

function Batches() {
  const batches = useInfiniteQuery(payoutBatchesQuery)
  return (
    <Panel title={t`Batches`}>
      <Loaded query={batches} height={120}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data)
          if (rows.length === 0) return <EmptyState text={t`No batch was prepared yet.`} />
          return (
            <>
              <DataTable
                label={t`Batches`}
                hasMore={batches.hasNextPage}
                rows={rows}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: t`Prepared`,
                    place: 'name',
                    cell: ({ id, prepared_at }) => (
                      <Link to="/operator/payouts/$batchId" params={{ batchId: id }}>
                        <When at={prepared_at} />
                      </Link>
                    ),
                    sortBy: ({ prepared_at }) => prepared_at,
                  },
                  { title: t`By`, cell: ({ prepared_by }) => prepared_by ?? t`the command line` },
                  { title: t`How`, cell: ({ driver }) => payoutWord(driver, 'bank') },
                  {
                    title: t`State`,
                    cell: ({ state, mismatches }) => (
                      <>
                        <State state={batchMarks[state]}>{codeText(state)}</State>
                        {mismatches > 0 && <State state="danger">{t`${mismatches} differ`}</State>}
                      </>
                    ),
                    sortBy: ({ state }) => state,
                  },
                  {
                    title: t`Payouts`,
                    align: 'right',
                    cell: ({ payouts }) => countText(payouts),
                    sortBy: ({ payouts }) => payouts,
                  },
                  {
                    title: t`Paid`,
                    align: 'right',
                    cell: ({ paid_usd }) => chargeText(paid_usd),
                    sortBy: ({ paid_usd }) => paid_usd,
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
              {batches.hasNextPage && (
                <Button
                  variant="default"
                  loading={batches.isFetchingNextPage}
                  onClick={() => void batches.fetchNextPage()}
                >{t`Show older batches`}</Button>
              )}
            </>
          )
        }}
      </Loaded>
    </Panel>
  )
}

function Funds() {
  const funds = useQuery(hosterFundsQuery)
  return (
    <Panel title={t`What hosters have`}>
      <Loaded query={funds} height={120}>
        {({ data }) =>
          data.length === 0 ? (
            <EmptyState text={t`There is no hoster yet.`} />
          ) : (
            <DataTable
              label={t`What hosters have`}
              rows={data}
              keyOf={({ hoster_id }) => hoster_id}
              columns={[
                {
                  title: t`Hoster`,
                  place: 'name',
                  cell: ({ hoster_id, hoster, frozen_reason, frozen_reason_codes: codes }) => (
                    <>
                      <Link to="/operator/hosters/$hosterId" params={{ hosterId: hoster_id }}>
                        {hoster}
                      </Link>
                      {frozen_reason !== null && t` frozen: ${saidText(frozen_reason, codes)}`}
                    </>
                  ),
                  sortBy: ({ hoster }) => hoster,
                },
                {
                  title: t`Balance`,
                  align: 'right',
                  cell: ({ balance_usd }) => <Balance usd={balance_usd} />,
                  sortBy: ({ balance_usd }) => balance_usd,
                },
                {
                  title: t`Held`,
                  align: 'right',
                  cell: ({ held_usd, held_until: until }) => (
                    <>
                      <Balance usd={held_usd} />
                      {until !== null && (
                        <span className={styles.hint}>
                          <Trans> until {utcDayText(until)}</Trans>
                        </span>
                      )}
                    </>
                  ),
                  sortBy: ({ held_usd }) => held_usd,
                },
                {
                  title: t`Payable`,
                  align: 'right',
                  place: 'figure',
                  cell: ({ payable_usd }) => <Balance usd={payable_usd} />,
                  sortBy: ({ payable_usd }) => payable_usd,
                },
              ]}
            />
          )
        }
      </Loaded>
    </Panel>
  )
}
