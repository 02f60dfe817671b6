import { t } from '@lingui/core/macro'
import { Plural, Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { CreditTransactions } from '#api/credits.ts'
import { creditsQuery, statementQuery } from '../../api/queries.ts'

import { dayText, utcText } from '../../format/time-text.ts'
import { balanceText, chargeText, roundUsd, signedUsd } from '../../format/usd-text.ts'
import { CsvExport } from '../../parts/CsvExport.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Balance } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { Tile, Tiles } from '../../parts/Tile.tsx'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import { BuyCredit } from './BuyCredit.tsx'

type Transaction = CreditTransactions['data'][number]

/** The balance and everything that changed it. */
export function Credits() {
  const customerId = useCustomerId()
  const credits = useQuery(creditsQuery(customerId))
  const { seesCredits } = useRights()
  return (
    <Page title={t`Credits`}>
      <Loaded query={credits} height={100}>
        {({ balance_usd, granted_usd, spent_usd, refunded_usd, held_usd }) => (
          <Tiles>
            <Tile
              label={t`Balance`}
              figure={
                <>
                  <Balance usd={balance_usd} /> USD
                </>
              }
            >
              {chargeText(balance_usd) !== balanceText(balance_usd) && (
                <span>{t`Exactly ${chargeText(balance_usd)} USD`}</span>
              )}
              {held_usd > 0 && (
                <span>
                  <Trans>{roundUsd(held_usd)} held for running requests</Trans>
                </span>
              )}
            </Tile>
            <Tile label={t`Added`} figure={`${roundUsd(granted_usd)} USD`} />
            <Tile label={t`Spent`} figure={`${roundUsd(spent_usd)} USD`} />
            <Tile label={t`Refunded`} figure={`${roundUsd(refunded_usd)} USD`} />
          </Tiles>
        )}
      </Loaded>
      {seesCredits && <BuyCredit customerId={customerId} />}
      {seesCredits && <Statement customerId={customerId} />}
    </Page>
  )
}

const words = {
  signup_credit: t`Signup credit`,
  credit: t`Credit`,
  payment: t`Payment`,
  voucher: t`Voucher`,
  refund: t`Refund`,
  reversal: t`Payment taken back`,
  reversal_returned: t`Payment returned`,
  debt_payment: t`Debt paid`,
  earnings_moved: t`Earnings`,
  opening_balance: t`Opening balance`,
  cell_move: t`Moved between cells`,
  usage: t`Used`,
} as const

function Statement({ customerId }: { customerId: string }) {
  const statement = useInfiniteQuery(statementQuery(customerId))
  return (
    <Panel
      title={t`Statement`}
      aside={<CsvExport path={`customers/${customerId}/credits/statement`} what={t`the statement`} />}
    >
      <Loaded query={statement} height={200}>
        {({ pages }) => (
          <>
            <DataTable
              label={t`Statement`}
              hasMore={statement.hasNextPage}
              rows={pages.flatMap(({ data }) => data)}
              keyOf={({ kind, at, amount_usd, request_id }) => `${kind} ${at} ${amount_usd} ${request_id}`}
              columns={[
                {
                  title: t`Day`,
                  cell: ({ at }) => (
                    <time dateTime={at} title={utcText(new Date(at))}>
                      {dayText(new Date(at))}
                    </time>
                  ),
                  sortBy: ({ at }) => at,
                },
                { title: t`What`, place: 'name', cell: row => <What customerId={customerId} row={row} /> },
                {
                  title: 'USD',
                  align: 'right',
                  place: 'figure',
                  cell: ({ amount_usd }) => signedUsd(amount_usd),
                  sortBy: ({ amount_usd }) => amount_usd,
                },
                {
                  title: t`Balance`,
                  align: 'right',
                  cell: ({ balance_usd }) => <Balance usd={balance_usd} />,
                  sortBy: ({ balance_usd }) => balance_usd,
                },
              ]}
            />
            {statement.hasNextPage && (
              <Button
                variant="default"
                loading={statement.isFetchingNextPage}
                onClick={() => void statement.fetchNextPage()}
              >{t`Show older entries`}</Button>
            )}
          </>
        )}
      </Loaded>
    </Panel>
  )
}

function What({ customerId, row }: { customerId: string; row: Transaction }) {
  const { kind, reason, requests, request_id } = row
  if (kind === 'usage')
    return (
      <Trans>
        Used, <Plural value={requests ?? 0} one="# request" other="# requests" />
      </Trans>
    )
  return (
    <>
      {words[kind]}
      {reason !== null && reason !== 'signup credit' && `: ${reason}`}{' '}
      {request_id !== null && (
        <Link to="/c/$customerId/activity/$requestId" params={{ customerId, requestId: request_id }}>{t`receipt`}</Link>
      )}
    </>
  )
}
