import { t } from '@lingui/core/macro'
import type { LinkProps } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import {
  ActivityIcon,
  CheckIcon,
  CreditIcon,
  HomeIcon,
  KeyIcon,
  ModelsIcon,
  PeopleIcon,
  PlaygroundIcon,
  ServerIcon,
  SettingsIcon,
  UsageIcon,
} from '../parts/icons.tsx'

export interface NavItem {
  readonly name: string
  readonly icon: ReactNode
  /** The parameters of the address are those of the current page. */
  readonly to: NonNullable<LinkProps['to']>
  /** The link is marked as current at this address only, not at addresses below it. */
  readonly isExact?: true
}

export const customerItems: readonly NavItem[] = [
  { name: t`Home`, icon: <HomeIcon />, to: '/c/$customerId', isExact: true },
  { name: t`Activity`, icon: <ActivityIcon />, to: '/c/$customerId/activity' },
  { name: t`Usage`, icon: <UsageIcon />, to: '/c/$customerId/usage' },
  { name: t`Keys`, icon: <KeyIcon />, to: '/c/$customerId/keys' },
  { name: t`Credits`, icon: <CreditIcon />, to: '/c/$customerId/credits' },
  { name: t`Models`, icon: <ModelsIcon />, to: '/c/$customerId/models' },
  { name: t`Playground`, icon: <PlaygroundIcon />, to: '/c/$customerId/playground' },
  { name: t`Settings`, icon: <SettingsIcon />, to: '/c/$customerId/settings' },
]

export const hosterItems: readonly NavItem[] = [
  { name: t`Overview`, icon: <HomeIcon />, to: '/h/$hosterId', isExact: true },
  { name: t`Offers`, icon: <ModelsIcon />, to: '/h/$hosterId/offers' },
  { name: t`Traffic`, icon: <ActivityIcon />, to: '/h/$hosterId/traffic' },
  { name: t`Trust`, icon: <CheckIcon />, to: '/h/$hosterId/trust' },
  { name: t`Earnings`, icon: <CreditIcon />, to: '/h/$hosterId/earnings' },
  { name: t`Connect`, icon: <ServerIcon />, to: '/h/$hosterId/connect' },
  { name: t`Settings`, icon: <SettingsIcon />, to: '/h/$hosterId/settings' },
]

export const operatorItems: readonly NavItem[] = [
  { name: t`Overview`, icon: <HomeIcon />, to: '/operator', isExact: true },
  { name: t`Customers`, icon: <PeopleIcon />, to: '/operator/customers' },
  { name: t`Usage`, icon: <UsageIcon />, to: '/operator/usage' },
  { name: t`Requests`, icon: <ActivityIcon />, to: '/operator/requests' },
  { name: t`Money`, icon: <CreditIcon />, to: '/operator/money' },
  { name: t`Prices`, icon: <CreditIcon />, to: '/operator/prices' },
  { name: t`Providers`, icon: <ServerIcon />, to: '/operator/providers' },
  { name: t`Models`, icon: <ModelsIcon />, to: '/operator/models' },
  { name: t`Hosters`, icon: <ServerIcon />, to: '/operator/hosters' },
  { name: t`Payouts`, icon: <CreditIcon />, to: '/operator/payouts' },
  { name: t`Grants`, icon: <CheckIcon />, to: '/operator/grants' },
  { name: t`People`, icon: <PeopleIcon />, to: '/operator/people' },
  { name: t`Log`, icon: <ActivityIcon />, to: '/operator/log' },
  { name: t`Settings`, icon: <SettingsIcon />, to: '/operator/settings' },
  { name: t`System`, icon: <ServerIcon />, to: '/operator/system' },
]

/** The pages of people themselves, whether or not they are members of a customer. */
export const accountItems: readonly NavItem[] = [
  { name: t`Start`, icon: <HomeIcon />, to: '/', isExact: true },
  { name: t`Your account`, icon: <SettingsIcon />, to: '/account' },
  { name: t`Become a hoster`, icon: <ServerIcon />, to: '/h/apply' },
]
