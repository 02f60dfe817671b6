import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { vouchersQuery } from '../../api/operator-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { codeText } from '../../texts/code-text.ts'
import { MakeVouchersDialog } from './MakeVouchersDialog.tsx'
import { useMayOperate } from './use-may-operate.ts'

const marks = { unused: 'ok', redeemed: 'off', revoked: 'danger', expired: 'warn' } as const

/** Codes that give credit once. */
export function Vouchers() {
  const vouchers = useInfiniteQuery(vouchersQuery)
  const [isMaking, setIsMaking] = useState(false)
  const mayOperate = useMayOperate()
  const revoke = useWrite<string>(id => ({ method: 'DELETE', path: `operator/vouchers/${id}` }), {
    areas: ['vouchers'],
    done: t`The voucher is revoked. Its code no longer works.`,
  })
  return (
    <Panel
      title={t`Vouchers`}
      aside={
        mayOperate && (
          <Button variant="default" size="compact-md" onClick={() => setIsMaking(true)}>{t`Make vouchers`}</Button>
        )
      }
    >
      <Loaded query={vouchers} height={120}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data)
          if (rows.length === 0) {
            return (
              <EmptyState
                text={t`A voucher is a code that gives its credit once, to the customer that redeems it first.`}
              />
            )
          }
          return (
            <>
              <DataTable
                label={t`Vouchers`}
                hasMore={vouchers.hasNextPage}
                rows={rows}
                keyOf={({ id }) => id}
                columns={[
                  { title: t`Made`, cell: ({ made_at }) => <When at={made_at} />, sortBy: ({ made_at }) => made_at },
                  {
                    title: t`Code`,
                    place: 'name',
                    cell: ({ hint, note }) => (
                      <>
                        <code>…{hint}</code> {note}
                      </>
                    ),
                  },
                  {
                    title: t`State`,
                    cell: ({ state, email }) => (
                      <>
                        <State state={marks[state]}>{codeText(state)}</State> {email}
                      </>
                    ),
                    sortBy: ({ state }) => state,
                  },
                  {
                    title: t`Kind`,
                    cell: ({ is_promotion }) => (is_promotion ? t`promotion` : t`paid`),
                  },
                  {
                    title: t`Expires`,
                    cell: ({ expires_at }) => <When at={expires_at} />,
                    sortBy: ({ expires_at }) => expires_at,
                  },
                  {
                    title: 'USD',
                    align: 'right',
                    place: 'figure',
                    cell: ({ amount_usd }) => roundUsd(amount_usd),
                    sortBy: ({ amount_usd }) => amount_usd,
                  },
                  {
                    title: '',
                    place: 'actions',
                    cell: ({ id, state, hint }) =>
                      mayOperate &&
                      state === 'unused' && (
                        <Button variant="default" size="compact-sm" onClick={() => revoke.mutate(id)}>
                          <Trans>
                            Revoke<span className="visually-hidden"> …{hint}</span>
                          </Trans>
                        </Button>
                      ),
                  },
                ]}
              />
              {vouchers.hasNextPage && (
                <Button
                  variant="default"
                  loading={vouchers.isFetchingNextPage}
                  onClick={() => void vouchers.fetchNextPage()}
                >{t`Show older vouchers`}</Button>
              )}
            </>
          )
        }}
      </Loaded>
      {isMaking && <MakeVouchersDialog onClose={() => setIsMaking(false)} />}
    </Panel>
  )
}
