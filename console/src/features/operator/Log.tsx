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
import styles from './operator.module.css'

/** What people did here, and whether the log is whole. */
export function Log() {
  const log = useInfiniteQuery(logQuery)
  const [scope, setScope] = useState<'newest' | 'all'>('newest')
  const state = useQuery(logStateQuery(scope))
  return (
    <Page title="Log">
      <Loaded query={state} height={80}>
        {({ entries, checked, is_intact, breaks, last_hash }) => (
          <Panel
            title={`${countText(entries)} entries`}
            aside={
              is_intact ? (
                <State state="ok">
                  {checked === entries
                    ? 'every entry follows from the one before'
                    : `the newest ${countText(checked)} entries follow from the ones before`}
                </State>
              ) : (
                <State state="danger">{`changed or removed near ${breaks.join(', ')}`}</State>
              )
            }
          >
            <p className={styles.hint}>
              Hash of the last entry: <code className={styles.hash}>{last_hash ?? 'none'}</code>
            </p>
            {checked < entries && (
              <Button variant="default" loading={state.isFetching} onClick={() => setScope('all')}>
                Check every entry
              </Button>
            )}
          </Panel>
        )}
      </Loaded>
      <Panel>
        <Loaded query={log} height={400}>
          {({ pages }) => (
            <>
              <DataTable
                label="Log"
                isPaged
                rows={pages.flatMap(({ data }) => data)}
                keyOf={({ id }) => String(id)}
                columns={[
                  { title: 'Time', cell: ({ at }) => <When at={at} /> },
                  { title: 'What', place: 'name', cell: ({ action }) => action.replaceAll(/[._]/g, ' ') },
                  {
                    title: 'Who',
                    cell: who,
                  },
                  {
                    title: 'About',
                    cell: ({ subject, customer }) =>
                      customer === null ? (
                        subject
                      ) : (
                        <Link to="/operator/customers/$customerId" params={{ customerId: customer.id }}>
                          {customer.email ?? customer.id}
                        </Link>
                      ),
                  },
                  { title: 'From', isLabelled: true, cell: ({ address }) => address ?? '–' },
                ]}
              />
              {log.hasNextPage && (
                <div className={styles.more}>
                  <Button variant="default" loading={log.isFetchingNextPage} onClick={() => void log.fetchNextPage()}>
                    Show older entries
                  </Button>
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
  const keyText = typeof key === 'string' ? `key ${key.slice(0, 8)}` : null
  if (person !== null) return [person.email ?? 'deleted', keyText].filter(text => text !== null).join(', ')
  return keyText ?? (typeof user === 'string' ? `${user} on the command line` : 'command line or gateway')
}
