import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { AuditLogPage } from '#api/operator/log.ts'
import { logQuery, logStateQuery } from '../../api/operator-queries.ts'
import { countText } from '../../format/number-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { codeText } from '../../texts/code-text.ts'
import styles from './operator.module.css'

/** What people did here, and whether the log is whole. */
export function Log() {
  const log = useInfiniteQuery(logQuery)
  const [scope, setScope] = useState<'newest' | 'all'>('newest')
  const state = useQuery(logStateQuery(scope))
  return (
    <Page title={t`Log`}>
      <Loaded query={state} height={80}>
        {({ entries, checked, is_intact, breaks, last_hash }) => (
          <Panel
            title={t`${countText(entries)} entries`}
            aside={
              is_intact ? (
                <State state="ok">
                  {checked === entries
                    ? t`every entry follows from the one before`
                    : t`the newest ${countText(checked)} entries follow from the ones before`}
                </State>
              ) : (
                <State state="danger">{t`changed or removed near ${breaks.join(', ')}`}</State>
              )
            }
          >
            <p className={styles.hint}>
              <Trans>
                Hash of the last entry: <code className={styles.hash}>{last_hash ?? t`none`}</code>
              </Trans>
            </p>
            {checked < entries && (
              <Button
                variant="default"
                loading={state.isFetching}
                onClick={() => setScope('all')}
              >{t`Check every entry`}</Button>
            )}
          </Panel>
        )}
      </Loaded>
      <Panel>
        <Loaded query={log} height={400}>
          {({ pages }) => (
            <>
              <DataTable
                label={t`Log`}
                hasMore={log.hasNextPage}
                rows={pages.flatMap(({ data }) => data)}
                keyOf={({ id }) => String(id)}
                columns={[
                  { title: t`Time`, cell: ({ at }) => <When at={at} />, sortBy: ({ at }) => at },
                  {
                    title: t`What`,
                    place: 'name',
                    cell: ({ action }) => codeText(action),
                    sortBy: ({ action }) => action,
                  },
                  {
                    title: t`Who`,
                    cell: who,
                  },
                  {
                    title: t`About`,
                    cell: ({ subject, customer }) =>
                      customer === null ? (
                        <code>{subject}</code>
                      ) : (
                        <Link to="/operator/customers/$customerId" params={{ customerId: customer.id }}>
                          {customer.email ?? customer.id}
                        </Link>
                      ),
                  },
                  { title: t`From`, cell: ({ address }) => address ?? '–', sortBy: ({ address }) => address },
                ]}
              />
              {log.hasNextPage && (
                <div className={styles.more}>
                  <Button
                    variant="default"
                    loading={log.isFetchingNextPage}
                    onClick={() => void log.fetchNextPage()}
                  >{t`Show older entries`}</Button>
                </div>
              )}
            </>
          )}
        </Loaded>
      </Panel>
    </Page>
  )
}

/** The person or the program that acted. Older entries of the command line name no user. */
function who({ person, detail: { by_key_id: key, by_os_user: user } }: AuditLogPage['data'][number]): string {
  const keyText = typeof key === 'string' ? t`key ${key.slice(0, 8)}` : null
  if (person !== null) return [person.email ?? t`deleted`, keyText].filter(text => text !== null).join(', ')
  return keyText ?? (typeof user === 'string' ? t`${user} on the command line` : t`command line or gateway`)
}
