import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { customerPricesQuery, priceGroupsQuery } from '../../api/operator-queries.ts'
import { Facts } from '../../parts/Facts.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { AssignPricesDialog } from './AssignPricesDialog.tsx'

/** The price group of a customer. */
export function CustomerPrices({ customerId, mayChange }: { customerId: string; mayChange: boolean }) {
  const prices = useQuery(customerPricesQuery(customerId))
  const groups = useQuery(priceGroupsQuery)
  const [isOpen, setOpen] = useState(false)
  const tier = prices.data?.of_tier ?? null
  const ofTier = tier === null ? t`list prices` : t`${tier}, by the tier`
  return (
    <Panel
      title={t`Prices`}
      aside={
        mayChange && (
          <Button variant="default" size="compact-sm" onClick={() => setOpen(true)}>{t`Change prices`}</Button>
        )
      }
    >
      <Loaded query={prices} height={60}>
        {({ own, current }) => (
          <Facts
            facts={{
              [t`Price group`]: (
                <>
                  {own ?? ofTier} <Link to="/operator/prices">{t`All price groups`}</Link>
                </>
              ),
              [t`Version`]: current === null ? '–' : String(current.version),
            }}
          />
        )}
      </Loaded>
      {isOpen && groups.data !== undefined && (
        <AssignPricesDialog
          title={t`Prices of this customer`}
          path={`customers/${customerId}/price-group`}
          none={t`None: ${ofTier}`}
          names={groups.data.data.map(({ name }) => name)}
          current={prices.data?.own ?? null}
          onClose={() => setOpen(false)}
        />
      )}
    </Panel>
  )
}
