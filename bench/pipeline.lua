-- sixteen requests at a time
local sixteen
function init()
  local one = wrk.format("GET", "/")
  sixteen = one:rep(16)
end
function request()
  return sixteen
end
