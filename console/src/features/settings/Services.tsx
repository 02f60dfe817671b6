import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { OidcStarted } from '#api/oidc.ts'
import { consoleConfigQuery, factorsQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { When } from '../../parts/When.tsx'
import styles from './settings.module.css'

/** The other services that the person signs in with. Hidden where none is configured. */
export function Services() {
  const factors = useQuery(factorsQuery)
  const { data: config } = useQuery(consoleConfigQuery)
  const providers = config?.oidc_providers ?? []
  const [unlinked, setUnlinked] = useState<{ id: string; name: string } | null>(null)
  const link = useWrite<string, OidcStarted>(
    provider => ({
      method: 'POST',
      path: 'identities/start',
      body: { provider, return_to: `${location.pathname}${location.search}` },
    }),
    { areas: [], onDone: ({ url }) => location.assign(url) },
  )
  const unlink = useWrite<string>(id => ({ method: 'DELETE', path: `identities/${id}` }), {
    areas: ['factors'],
    done: t`The service is unlinked.`,
    onDone: () => setUnlinked(null),
  })
  if (providers.length === 0) return null
  const nameOf = (id: string) => providers.find(each => each.id === id)?.name ?? id
  return (
    <Panel title={t`Other services`}>
      <Loaded query={factors} height={80}>
        {({ identities }) => (
          <div className={styles.block}>
            {identities.length > 0 && (
              <DataTable
                label={t`Linked services`}
                rows={identities}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: t`Service`,
                    place: 'name',
                    cell: ({ provider }) => nameOf(provider),
                    sortBy: ({ provider }) => nameOf(provider),
                  },
                  {
                    title: t`Account there`,
                    cell: ({ email }) => email ?? t`no address`,
                    sortBy: ({ email }) => email,
                  },
                  {
                    title: t`Last used`,
                    cell: ({ last_used_at }) => <When at={last_used_at} form="distance" />,
                    sortBy: ({ last_used_at }) => last_used_at,
                  },
                  {
                    title: '',
                    align: 'right',
                    cell: ({ id, provider }) => (
                      <Button
                        variant="default"
                        size="compact-sm"
                        onClick={() => setUnlinked({ id, name: nameOf(provider) })}
                      >{t`Unlink`}</Button>
                    ),
                  },
                ]}
              />
            )}
            <div className={styles.row}>
              {providers
                .filter(({ id }) => !identities.some(each => each.provider === id))
                .map(({ id, name }) => (
                  <Button
                    key={id}
                    variant="default"
                    loading={link.isPending && link.variables === id}
                    onClick={() => link.mutate(id)}
                  >
                    <Trans>Link {name}</Trans>
                  </Button>
                ))}
            </div>
          </div>
        )}
      </Loaded>
      <ConfirmDialog
        isOpen={unlinked !== null}
        title={t`Unlink ${unlinked?.name ?? ''}?`}
        action={t`Unlink`}
        isBusy={unlink.isPending}
        onConfirm={() => unlinked !== null && unlink.mutate(unlinked.id)}
        onClose={() => setUnlinked(null)}
      >
        <p>{t`You can no longer sign in with it. Your sessions stay.`}</p>
      </ConfirmDialog>
    </Panel>
  )
}
