-- Connections begin with the PROXY header of the environment variable PROXY, in hexadecimal digits; with KEPT so many of
-- them are kept, and only their first requests have one.
local header = (os.getenv("PROXY") or ""):gsub("..", function(pair) return string.char(tonumber(pair, 16)) end)
local kept = tonumber(os.getenv("KEPT") or "0")
local last = kept > 0 and "" or "Connection: close\r\n"
local plain = "GET / HTTP/1.1\r\nHost: localhost\r\n" .. last .. "\r\n"
local asked = 0

function request()
  asked = asked + 1
  -- The first is not sent: wrk reads it, to know what a request is.
  if asked == 1 or (kept > 0 and asked > kept + 1) then return plain end
  return header .. plain
end
